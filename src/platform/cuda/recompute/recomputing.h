// Which results of stored launches can be recomputed, and whether they still hold what their launch
// wrote. Layer: platform, cuda. docs/cuda.md. It puts nothing on a stream: it says what must be
// recomputed before a launch, and is told what has been. With the platform's lock held.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "engine/types.h"
#include "platform/cuda/cuda_launch.h"
#include "platform/cuda/recompute/allocation_set.h"
#include "platform/cuda/recompute/fingerprint_places.h"
#include "platform/cuda/recompute/kernel_kinds.h"
#include "platform/cuda/recompute/remake_reads.h"
#include "platform/cuda/stream/device_launches.h"

namespace spillway::cuda {

class Recomputing {
 public:
  using Source = RemakeSource;
  // A launch that wrote one allocation, only read others, and can be issued again.
  struct Maker {
    ReplayableLaunch kept;
    StreamId stream = 0;
    std::uint64_t number = 0;  // on it
    LaunchHash hash;
    std::string name;                  // for people
    std::vector<Source> sources = {};  // ReplayableLaunch::reads
  };
  // What must be done before a launch is issued, or memory dies.
  struct Step {
    enum class What : std::uint8_t {
      kTry,      // whether it writes all of it: twice, over two patterns, with a fingerprint each
                 // (and one of what was there first, if that must be the same)
      kMark,     // the first fingerprint is put on its stream
      kCompare,  // the second one
      kRemake,   // its maker
      kWait,     // for another thread that does one of these, or for the end of what was put there
    };
    What what = What::kWait;
    AllocationId id = kNoAllocation;
    StreamId stream = 0;  // where
    bool vain = false;    // nobody has asked for what is made again
  };

  // The engine is told what can be given up, and what no more.
  Recomputing(const DeviceLaunches& launches, Engine& engine)
      : launches_(launches), engine_(engine), places_(launches), reads_(launches) {}

  // Where the device writes fingerprints. Without it nothing is given up.
  void set_words(const std::uint64_t* words) { places_.set_words(words); }

  // What may have been written is compared when so many of the program's launches have followed on
  // its stream.
  static constexpr std::uint64_t kLaunchesBetween = 3;

  // --- The program's memory

  // Its contents are undefined: what the next launch writes is all that there is.
  void born(AllocationId id);
  // `next_on`: the stream on which its memory is used next, if it may be before all that is issued
  // now has ended.
  struct Death {
    bool handed_on = false;
    std::optional<StreamId> next_on;  // nullopt: any
  };
  [[nodiscard]] std::optional<Step> before_death(AllocationId id, const Death& death) const;
  void dies(AllocationId id);
  // Something else lies in it from now on, which no launch that is known makes.
  [[nodiscard]] std::optional<Step> before_divide(AllocationId id) const;
  void divided(AllocationId id);

  // --- Launches

  // Launches may write it from now on that do not name it (AccessMode::kExpose).
  void expose(AllocationId id) { exposed_.add(id); }
  // With what a launch that may do so changes of what is kept here: as if it named that.
  [[nodiscard]] std::vector<Access> with_reached(std::span<const Access> accesses) const;
  // What must be done before such a launch is issued, one after the other until there is nothing.
  // `of`: kNoAllocation for one of the program's, else it is part of a step for this.
  [[nodiscard]] std::optional<Step> before_launch(std::span<const Access> accesses, StreamId stream,
                                                  AllocationId of) const;
  // The engine must not give up what the launch names, nor what was made of what it may write,
  // while it is being told of the launch: until `offer`.
  [[nodiscard]] std::vector<AllocationId> withhold(std::span<const Access> accesses);
  void offer(std::span<const AllocationId> withheld);
  // The number of the last launch on this stream that makes one of these again, and has not ended;
  // 0: there is none.
  [[nodiscard]] std::uint64_t last_remake(std::span<const Access> accesses, StreamId stream) const;
  // One of the program's is issued next, with this number on its stream.
  void issued(std::span<const Access> accesses, StreamId stream, std::uint64_t number);
  // Whether the allocation was born and no launch has been issued that names it.
  [[nodiscard]] bool is_new(AllocationId id) const { return new_.has(id); }
  // A launch that has just been issued made all of it.
  void made(AllocationId id, Maker maker);
  // The launch that made it was not all that makes it.
  void spoiled(AllocationId id);
  // The driver has refused the launch, or what belongs to it.
  void not_made(StreamId stream, std::uint64_t number);

  // --- Steps

  // Before the stream goes, or all code: what has been given up is made again. Behind that nothing
  // is known of what its launches made.
  [[nodiscard]] std::optional<Step> before_end(std::optional<StreamId> stream) const;
  void end(std::optional<StreamId> stream);

  // The calling thread carries it out; others wait. False: there is no place for a fingerprint, and
  // nothing need be done any more.
  [[nodiscard]] bool begin(const Step& step);
  [[nodiscard]] const Maker& maker(AllocationId id) const { return entries_.at(id).maker; }
  // Where the words of a fingerprint of it go, from the first of all.
  [[nodiscard]] std::size_t words_of(AllocationId id, FingerprintPlaces::Fingerprint which) const;
  // It is on its stream, up to the launch with this number; or the driver has refused it.
  void done(const Step& step, std::uint64_t number);
  void refused(const Step& step);

  // Looks at the steps that have ended, of which some show what can be given up from now on. Fails
  // if a trial has left other bytes where it must not: the program's are gone.
  [[nodiscard]] Status look();
  // Mechanism::gave_up.
  void gave_up(AllocationId id);

  // Whether it is known of nothing how it could be made again: no step stands before a death.
  [[nodiscard]] bool empty() const { return entries_.empty(); }
  // Whether nothing is given up, or on its way. Then all can be forgotten.
  [[nodiscard]] bool at_rest() const;
  void forget_all();
  [[nodiscard]] Status check() const;

 private:
  enum class State : std::uint8_t {
    kMade,       // nobody may have written it since
    kTrying,     // it is being made again to see what that writes
    kMarked,     // as it was made, and its fingerprint is on the stream
    kDoubted,    // a launch that may write it stands behind that
    kComparing,  // its second fingerprint is on the stream
    kSure,       // it is as it was made
    kGivenUp,
    kRemaking,  // its maker is on a stream again: behind it, it is memory like any other
  };
  struct Entry {
    Maker maker;
    State state = State::kMade;
    bool busy = false;      // a thread carries out a step
    bool compared = false;  // and it was the same: not once more
    std::uint32_t place = kNoIndex;
    StreamId stream = 0;       // of the last step
    std::uint64_t number = 0;  // of its launch
    std::uint64_t doubt = 0;   // number of the last launch that may have written it, on that stream
    std::uint64_t doubt_count = 0;  // as in issued_on_

    [[nodiscard]] bool has_writer() const {
      return state == State::kRemaking || state == State::kTrying;
    }
    // Whether what was put on a stream for it last has not ended.
    [[nodiscard]] bool is_under_way(const DeviceLaunches& launches) const {
      return launches.stream(stream).ended < number;
    }
  };
  // A trial that is on its stream. What was tried may die first: most results are kept for a moment
  // only, and the program is host-mapped ahead.
  struct Trial {
    std::uint64_t kind = 0;
    bool whole = false;  // ReplayableLaunch's
    std::string name;
    std::uint32_t place = kNoIndex;
    StreamId stream = 0;
    std::uint64_t number = 0;  // of its last launch
  };
  [[nodiscard]] Status judge(const Trial& trial);
  [[nodiscard]] std::optional<Step> before_use(AllocationId id, const Entry& entry,
                                               StreamId stream) const;
  [[nodiscard]] std::optional<Step> before_doubt(AllocationId id, const Entry& entry,
                                                 bool may_write) const;
  void only_read(AllocationId id, Entry& entry);
  [[nodiscard]] std::optional<Step> before_change(const Access& access, StreamId stream) const;
  template <typename InTheWay>
  [[nodiscard]] std::optional<Step> before_loss(const Access& access,
                                                std::optional<StreamId> asking,
                                                const InTheWay& in_the_way) const;
  void leave_place(Entry& entry);
  void lose(AllocationId id);
  void lose_made_of(const Access& access);

  [[nodiscard]] bool is_sure(AllocationId id) const;

  const DeviceLaunches& launches_;
  Engine& engine_;
  FingerprintPlaces places_;
  KernelKinds kinds_;
  AllocationSet new_;
  AllocationSet exposed_;
  std::unordered_map<AllocationId, Entry> entries_;
  std::unordered_map<AllocationId, std::vector<AllocationId>> makes_;  // by what is read
  std::vector<AllocationId> doubted_;
  std::vector<std::uint64_t> issued_on_;  // by stream, how many launches of the program
  std::vector<AllocationId> newly_sure_;  // of which the engine is not told yet
  std::vector<AllocationId> ending_;      // of which the last step has to end
  std::vector<Trial> trials_;             // that have not been judged
  RemakeReads reads_;
};

}  // namespace spillway::cuda
