// What launches have made that could be made again, and how far it is known that it still is what
// they made. Layer: platform, cuda. docs/recomputing.md. It puts nothing on a stream: it says what
// must be there before a launch, and is told what is. With the platform's lock held.
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
#include "platform/cuda/cuda_platform.h"
#include "platform/cuda/device_launches.h"

namespace spillway::cuda {

class Recomputing {
 public:
  // A launch that wrote one allocation, only read others, and can be issued again.
  struct Maker {
    std::shared_ptr<const Relaunch> how;
    StreamId stream = 0;
    LaunchHash hash;
    std::string name;        // for people
    std::uint64_t kind = 0;  // of the kernel and the sizes: what is learnt is learnt of these
    CudaOperand makes;
    std::vector<CudaOperand> reads = {};
    std::vector<AllocationId> read_ids = {};
  };
  // What must be done before a launch is issued, or memory dies.
  struct Step {
    enum class What : std::uint8_t {
      kMark,     // the first fingerprint is put on its stream
      kCompare,  // the second one
      kRemake,   // its maker
      kWait,     // for another thread that does one of these, or for the end of what was put there
    };
    What what = What::kWait;
    AllocationId id = kNoAllocation;
    bool vain = false;  // nobody has asked for what is made again
  };
  // Those that can be given up no more: the engine is to be told.
  using Lost = std::vector<AllocationId>;

  explicit Recomputing(const DeviceLaunches& launches) : launches_(launches) {}

  // Fingerprints of `kPlaces` allocations, two of kFingerprintWords words each, which the device
  // writes. Without them nothing is given up that a launch may have written.
  static constexpr std::uint32_t kPlaces = 256;
  void set_words(const std::uint64_t* words) { words_ = words; }

  // --- The program's memory

  // Its contents are undefined: what the next launch writes is all that there is.
  void born(AllocationId id);
  [[nodiscard]] std::optional<Step> before_death(AllocationId id) const;
  void dies(AllocationId id, Lost& lost);

  // --- Launches

  // What must be done before such a launch is issued, one after the other until there is nothing;
  // `ours`: it is one of these steps.
  [[nodiscard]] std::optional<Step> before_launch(std::span<const Access> accesses, StreamId stream,
                                                  bool ours) const;
  // One of the program's is issued next, with this number on its stream.
  void issued(std::span<const Access> accesses, StreamId stream, std::uint64_t number, Lost& lost);
  // Whether the allocation was born and no launch has been issued that names it.
  [[nodiscard]] bool is_new(AllocationId id) const { return id < new_.size() && new_[id]; }
  // A launch that has just been issued made all of it.
  void made(AllocationId id, Maker maker);

  // --- Steps

  // Before the stream goes, or all code: what has been given up is made again. Behind that nothing
  // is known of what its launches made.
  [[nodiscard]] std::optional<Step> before_end(std::optional<StreamId> stream) const;
  void end(std::optional<StreamId> stream, Lost& lost);

  // The calling thread carries it out; others wait. False: there is no place for a fingerprint, and
  // nothing need be done any more.
  [[nodiscard]] bool begin(const Step& step, Lost& lost);
  [[nodiscard]] const Maker& maker(AllocationId id) const { return entries_.at(id).maker; }
  // Where the words of the fingerprint of this step go, from the first of all.
  [[nodiscard]] std::size_t words_of(const Step& step) const;
  // It is on its stream as the launch with this number, or the driver has refused it.
  void done(const Step& step, std::uint64_t number);
  void refused(const Step& step, Lost& lost);

  // Compares the fingerprints that have ended: what can be given up from now on.
  void compare(std::vector<AllocationId>& sure);
  [[nodiscard]] bool compares() const { return !comparing_.empty(); }
  // Mechanism::gave_up.
  void gave_up(AllocationId id);

  // Whether nothing is given up, or on its way. Then all can be forgotten.
  [[nodiscard]] bool at_rest() const;
  void forget_all(Lost& lost);
  [[nodiscard]] std::uint64_t remade() const { return remade_; }
  [[nodiscard]] Status check() const;

 private:
  enum class State : std::uint8_t {
    kMade,       // nobody may have written it since
    kMarked,     // the same, and its fingerprint is on the stream
    kDoubted,    // a launch that may write it stands behind that
    kComparing,  // its second fingerprint is on the stream
    kSure,       // it is as it was made
    kGivenUp,
    kRemade,  // it is there again, and is given up no more
  };
  struct Entry {
    Maker maker;
    State state = State::kMade;
    bool busy = false;         // a thread carries out a step
    bool named_since = false;  // by a launch of the program behind the one that made it again
    std::uint32_t place = kNoIndex;
    std::uint64_t number = 0;  // of the last step's launch, on its stream
  };
  // Of a kind: results that were marked and are gone, how many of them had been given up and asked
  // for, and how many have not been marked since it was not worth it.
  struct Worth {
    std::uint64_t gone = 0;
    std::uint64_t useful = 0;
    std::uint64_t left_alone = 0;
  };
  // When an allocation that something was made of was last named by the program.
  struct Named {
    StreamId stream = 0;
    std::uint64_t number = 0;
  };
  struct Source {
    std::vector<AllocationId> of;  // what was made of it
    Named named;
  };

  [[nodiscard]] bool is_under_way(const Entry& entry) const;
  [[nodiscard]] bool worth_it(std::uint64_t kind) const;
  [[nodiscard]] bool are_same(const Entry& entry) const;
  [[nodiscard]] std::optional<Step> before_use(AllocationId id, const Entry& entry, bool may_write,
                                               StreamId stream) const;
  [[nodiscard]] std::optional<Step> before_change(AllocationId id, StreamId stream) const;
  void lose(AllocationId id, Lost& lost);
  void lose_made_of(AllocationId id, Lost& lost);

  const DeviceLaunches& launches_;
  const std::uint64_t* words_ = nullptr;
  std::vector<bool> new_;  // by allocation
  std::unordered_map<AllocationId, Entry> entries_;
  std::unordered_map<AllocationId, Source> sources_;
  std::vector<AllocationId> doubted_;
  std::vector<AllocationId> comparing_;
  std::vector<std::uint32_t> free_places_;
  std::uint32_t places_ = 0;  // that were ever used
  std::unordered_map<std::uint64_t, Worth> worth_;
  std::uint64_t remade_ = 0;
};

}  // namespace spillway::cuda
