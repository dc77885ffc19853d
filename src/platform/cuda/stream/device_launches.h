// Launches of the program between their issue and their end: by stream, in order. Layer: platform,
// cuda. How a launch is made, and what it uses, it does not know. With the platform's lock held.
//
// A launch is issued (it has the next number of its stream), released by the engine, backed when
// all of its blocks have their memory, and open when both and when all before it on its stream are
// open. It is made when the program's thread has put it on the stream. A completion marker says how
// far the stream has run; it covers only launches before which none is still to be made.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/mutex.h"
#include "engine/engine.h"
#include "platform/common/launch_log.h"
#include "platform/common/stall_clock.h"
#include "platform/cuda/stream/shared_wait.h"
#include "platform/cuda/stream/stream_waits.h"

namespace spillway::cuda {

class DeviceLaunches {
 public:
  // By tag, which is what the engine calls it.
  struct Launch {
    std::uint32_t stream = 0;
    std::uint64_t number = 0;  // on its stream, from 1
    // Number of the launch in front of which its stream wait stands: its own, or that of an earlier
    // launch with which it shares the wait. 0: it has none.
    std::uint64_t through = 0;
    LaunchId id = kNoLaunch;
    LogRow row = kNoLogRow;
    std::vector<Access> accesses;
    std::vector<BlockId> missing;  // when it was issued
    std::uint32_t unbacked = 0;    // blocks that have no memory yet, once it is released
    bool made = false;
    bool released = false;
    bool open = false;
    bool held = false;
    bool oversized = false;
    Mutex* in_order = nullptr;   // held from its issue until it is made
    std::uint32_t bypassed = 0;  // of a placeholder: bypassed calls inside the driver
    // Since when it has waited as the first launch of its stream. 0: it is not the first, or runs.
    TimeNs first_ns = 0;
    [[nodiscard]] bool has_memory() const { return released && unbacked == 0; }
    TimeNs released_ns = 0;
    TimeNs opened_ns = 0;
  };
  struct Stream {
    CuStream handle = nullptr;
    CuContext context = nullptr;  // that it belongs to
    bool blocking = false;        // it and the null stream wait for each other
    bool live = false;            // the program has it
    bool lost = false;            // its context is: nothing runs on it any more
    bool asked = false;           // a thread is asking whether its context is
    std::uint64_t issued = 0;     // number of the last launch
    std::uint64_t made = 0;       // up to here all have been made
    std::uint64_t marked = 0;     // up to here a completion marker is on the stream, or about to be
    std::uint64_t marker_put = 0;  // up to here it is
    std::uint64_t ended = 0;       // up to here they have ended
    std::uint64_t held_to = 0;     // the last one behind a stream wait
    std::uint32_t bypassed = 0;    // bypassed calls inside the driver
    std::uint32_t unreleased = 0;  // launches, as below
    SharedWait shared;             // the last stream wait, where others may go through it
    TimeNs ended_ns = 0;           // when the last end was seen
    // Everything that was put on the stream, completion markers included: on the null stream even a
    // marker waits for other streams.
    std::uint64_t operations = 0;
    std::uint64_t markers_put = 0;       // of these operations
    std::uint64_t orders_others = 0;     // how often another stream of its context waits for it
    std::uint64_t null_waited = 0;       // operations of the null stream that it has waited for
    std::uint64_t waited_by_null = 0;    // own operations that the null stream has waited for
    std::deque<std::uint32_t> launches;  // tags, of those that have not ended
    // Held by a thread of the program from before_launch to after_launch: launches come to the
    // stream in the order of their numbers. (The platform has one for those that the device orders
    // with each other by itself.)
    Mutex issuing;
    Mutex markers;  // held while a marker is put on the stream; without the platform's lock
  };

  DeviceLaunches(Engine& engine, StreamWaits& stream_waits, LaunchLog& log, StallClock& stalls)
      : engine_(engine), stream_waits_(stream_waits), log_(log), stalls_(stalls) {}
  // How long first launches of streams have waited to be released, and then for their memory.
  struct Waited {
    std::uint64_t count = 0;
    TimeNs unreleased_ns = 0;
    TimeNs unmapped_ns = 0;
  };
  [[nodiscard]] const Waited& waited() const { return waited_; }

  // --- Streams

  // The stream's number; nullopt if it is not known. Each context has a null stream of its own, so
  // `context` counts for null streams only. `add_stream` gives nullopt if there are too many.
  [[nodiscard]] std::optional<StreamId> find(CuStream stream, CuContext context) const;
  std::optional<StreamId> add_stream(CuStream handle, CuContext context, bool blocking);
  // The program has destroyed the stream. Its number is used again when its launches have ended.
  void forget(StreamId id);
  // The stream's context is gone, so nothing runs on it any more; the same for all streams of a
  // context.
  void lose(StreamId id) { streams_[id].lost = true; }
  void lose(CuContext context);
  [[nodiscard]] bool is_lost(CuContext context) const;
  [[nodiscard]] Stream& stream(StreamId id) { return streams_[id]; }
  [[nodiscard]] const Stream& stream(StreamId id) const { return streams_[id]; }
  [[nodiscard]] CuContext context_of(StreamId id) const { return streams_[id].context; }
  [[nodiscard]] std::size_t streams() const { return streams_.size(); }

  // --- A launch

  std::uint32_t begin(StreamId stream, LogRow row, std::span<const Access> accesses);
  [[nodiscard]] Launch& at(std::uint32_t tag) { return launches_[tag]; }
  [[nodiscard]] const Launch& at(std::uint32_t tag) const { return launches_[tag]; }
  // The engine has taken it.
  void issued(std::uint32_t tag, LaunchId id);
  // The launch has got more memory than the budget.
  void oversized(std::uint32_t tag);
  // Mechanism::release_launch: so many of its blocks have no memory yet.
  void released(std::uint32_t tag, std::uint32_t unbacked);
  void backed(std::uint32_t tag);
  // The block's bytes have come from there: what launches that lacked it have waited for.
  void came_from(BlockId block, Source source);
  // True if the launch may be put behind a stream wait. At most `most` streams are held at once; a
  // stream is held until the launch behind its last stream wait has ended. False as well while a
  // thread makes a bypassed call, which must not come behind the wait.
  [[nodiscard]] bool may_be_held(std::uint32_t tag, unsigned most) const;
  // The launch stands behind a stream wait of its own.
  void hold(std::uint32_t tag);
  // The launch shares the last stream wait of its stream, which is not satisfied yet.
  void share_wait(std::uint32_t tag, const SharedWait::Launch& launch);
  // The launch that holds up the first one of the stream: both share a stream wait, the first has
  // been released for `time_ns`, and this one still lacks memory. nullopt: there is none.
  struct HoldsUp {
    std::uint32_t tag = 0;
    TimeNs time_ns = 0;
  };
  [[nodiscard]] std::optional<HoldsUp> holds_up(StreamId id) const;
  void made(std::uint32_t tag);
  // Placeholder for bypassed calls of a stream. `begun`: one is inside the driver. `ended`: it
  // returned; true if it was the last. `covered`: a completion marker stands behind it; until then
  // no stream wait is put where that marker would come behind it. `made_if_none`: none is inside.
  void bypassed_begun(std::uint32_t tag);
  bool bypassed_ended(std::uint32_t tag);
  void bypassed_covered(StreamId id);
  void made_if_none_bypassed(std::uint32_t tag);

  // --- Markers

  // The number up to which a completion marker would say something new; 0: none.
  [[nodiscard]] std::uint64_t marker_due(StreamId id) const;
  // Whether a thread is about to put one there, or asks something of the stream.
  [[nodiscard]] bool marker_under_way(StreamId id) const {
    return streams_[id].marked > streams_[id].marker_put || streams_[id].asked;
  }
  // How many launches have been issued since the last completion marker.
  [[nodiscard]] std::uint64_t uncovered(StreamId id) const;
  // Ends the launches that have run; true if there were any.
  bool take_ends();

  // Launches that have not ended; those of them that still wait.
  [[nodiscard]] std::uint32_t in_flight() const { return in_flight_; }
  [[nodiscard]] std::uint32_t waiting() const { return waiting_; }
  // Of the waiting launches, those that the engine has not released: it lacks room or data for
  // them, and the end of other launches may help.
  [[nodiscard]] std::uint32_t unreleased() const { return unreleased_; }
  // The first unreleased launch of this stream; the number of its first launch that has not ended,
  // if that one may run.
  [[nodiscard]] std::optional<std::uint32_t> first_unreleased(StreamId id) const;
  [[nodiscard]] std::optional<std::uint64_t> first_open(StreamId id) const;
  // True if all unreleased launches are on this stream.
  [[nodiscard]] bool only_unreleased_on(StreamId id) const {
    return streams_[id].unreleased == unreleased_;
  }
  // Whether completion markers cover all that has been issued to other streams.
  [[nodiscard]] bool others_covered(StreamId id) const;
  [[nodiscard]] std::uint32_t oversized() const { return oversized_; }
  // Whether some on streams of this context have not ended.
  [[nodiscard]] bool any_of(CuContext context) const;
  // When the last end was seen; 0: none yet.
  [[nodiscard]] TimeNs ended_ns() const { return ended_ns_; }
  // The last number that each stream has given, and whether all launches up to those have ended.
  [[nodiscard]] std::vector<std::uint64_t> issued_by_stream() const;
  [[nodiscard]] bool have_ended(const std::vector<std::uint64_t>& issued) const;
  // Every launch that waits is the first of its stream, so that no end of another will help it.
  [[nodiscard]] bool all_wait() const;
  [[nodiscard]] Status check() const;

 private:
  static std::pair<CuStream, CuContext> name(CuStream stream, CuContext context) {
    return {stream, stream == nullptr ? context : nullptr};
  }
  // Whether the device lets what comes to `other` wait for what stands on `id`.
  [[nodiscard]] bool comes_behind(StreamId other, StreamId id) const;
  [[nodiscard]] bool bypassed_behind(StreamId id) const;
  [[nodiscard]] std::uint64_t ready_up_to(const Stream& stream, std::uint64_t opened) const;
  void open_those_ready(StreamId id);
  void note_waited(const Stream& stream, const Launch& launch);
  void note_first(StreamId id);
  bool end_up_to(StreamId id, std::uint64_t number);
  [[nodiscard]] Source waited_for(const Launch& launch) const;

  Engine& engine_;
  StreamWaits& stream_waits_;
  LaunchLog& log_;
  StallClock& stalls_;
  std::deque<Stream> streams_;                                  // by number; never moved
  std::map<std::pair<CuStream, CuContext>, StreamId> numbers_;  // by `name`
  TimeNs ended_ns_ = 0;
  std::vector<StreamId> free_streams_;
  std::deque<Launch> launches_;  // by tag; never moved
  std::vector<std::uint32_t> free_tags_;
  std::vector<Source> sources_;  // by block: where its bytes came from last
  std::uint32_t in_flight_ = 0;
  std::uint32_t waiting_ = 0;
  std::uint32_t unreleased_ = 0;
  std::uint32_t oversized_ = 0;
  unsigned waiting_streams_ = 0;
  Waited waited_;
};

}  // namespace spillway::cuda
