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
#include <mutex>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

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
    // The one before which its stream wait stands, if it has one: itself, or one with which it
    // shares it.
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
    std::mutex* in_order = nullptr;  // held from its issue until it is made
    std::uint32_t unseen = 0;        // calls that it stands for and that have not been made yet
    // Since when it is the first of its stream and waits; 0: it is or does not.
    TimeNs first_ns = 0;
    [[nodiscard]] bool has_memory() const { return released && unbacked == 0; }
    TimeNs released_ns = 0;
    TimeNs opened_ns = 0;
  };
  struct Stream {
    CuStream handle = nullptr;
    CuContext context = nullptr;  // that it belongs to
    bool blocking = false;        // waits for the null stream, and that for it
    bool live = false;            // the program has it
    bool lost = false;            // its context is: nothing runs on it any more
    bool asked = false;           // a thread is asking whether its context is
    std::uint64_t issued = 0;     // number of the last launch
    std::uint64_t made = 0;       // up to here all have been made
    std::uint64_t marked = 0;     // up to here a completion marker is on the stream, or about to be
    std::uint64_t marker_put = 0;  // up to here it is
    std::uint64_t ended = 0;       // up to here they have ended
    std::uint64_t held_to = 0;     // the last one behind a stream wait
    std::uint32_t unseen = 0;  // calls that somebody is making who does not know of stream waits
    std::uint32_t unreleased = 0;  // launches, as below
    SharedWait shared;             // the last stream wait, where others may go through it
    TimeNs ended_ns = 0;           // when the last end was seen
    // Whatever has been put on it counts: on the null stream even a completion marker waits for
    // others.
    std::uint64_t operations = 0;
    std::uint64_t markers_put = 0;       // of these
    std::uint64_t orders_others = 0;     // how often another of its context was told to wait for it
    std::uint64_t null_waited = 0;       // of the null stream's, that it has waited for
    std::uint64_t waited_by_null = 0;    // its own, that the null stream has waited for
    std::deque<std::uint32_t> launches;  // tags, of those that have not ended
    // Held by a thread of the program from before_launch to after_launch: launches come to the
    // stream in the order of their numbers. (The platform has one for those that the device orders
    // with each other by itself.)
    std::mutex issuing;
    std::mutex markers;  // held while one is put there; not under the platform's lock
  };

  DeviceLaunches(Engine& engine, StreamWaits& gates, LaunchLog& log, StallClock& stalls)
      : engine_(engine), stream_waits_(gates), log_(log), stalls_(stalls) {}
  // For how long the first of a stream has waited to be released, and from there for its memory.
  struct Waited {
    std::uint64_t count = 0;
    TimeNs unreleased_ns = 0;
    TimeNs unmapped_ns = 0;
  };
  [[nodiscard]] const Waited& waited() const { return waited_; }

  // --- Streams

  // nullopt if it has not been seen, and by `add_stream` if there are too many. Each context has a
  // null stream: those go by their context as well, which for all others does not count.
  [[nodiscard]] std::optional<StreamId> find(CuStream stream, CuContext context) const;
  std::optional<StreamId> add_stream(CuStream handle, CuContext context, bool blocking);
  // The program has it no more; the number is used again when its launches have ended.
  void forget(StreamId id);
  // Nothing runs on it, or on any of the context's streams, any more, and nothing ever will.
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
  // More than the budget was made up for it.
  void oversized(std::uint32_t tag);
  // Mechanism::release_launch: so many of its blocks have no memory yet.
  void released(std::uint32_t tag, std::uint32_t unbacked);
  void backed(std::uint32_t tag);
  // The block's bytes have come from there: what launches that lacked it have waited for.
  void came_from(BlockId block, Source source);
  // Whether it may be put behind a stream wait: no more than `most` streams may be held by stream
  // waits at once. One is until what stood behind its last stream wait has ended: a stream wait
  // that is open has not been passed yet. Nor where somebody is about to make a call that must not
  // stand behind it.
  [[nodiscard]] bool may_wait(std::uint32_t tag, unsigned most) const;
  void gate(std::uint32_t tag);
  // Instead of a stream wait of its own it has its stream's last one, which is not open: nothing
  // behind that goes before it may.
  void share_wait(std::uint32_t tag, const SharedWait::Launch& launch);
  // One that lacks room or bytes, although the first of its stream, with which it shares a stream
  // wait, waits for nothing else; and for how long that has been released. nullopt: none.
  struct HoldsUp {
    std::uint32_t tag = 0;
    TimeNs time_ns = 0;
  };
  [[nodiscard]] std::optional<HoldsUp> holds_up(StreamId id) const;
  void made(std::uint32_t tag);
  // Of one that stands for calls of which nobody was told: one of those is still being made; has
  // been, and true if that was the last; there are none. Until it is told as well that a completion
  // marker stands behind it nothing is held by a stream wait that the completion marker could come
  // behind.
  void bypassed_begun(std::uint32_t tag);
  bool bypassed_ended(std::uint32_t tag);
  void bypassed_tracked(StreamId id);
  void made_if_none_bypassed(std::uint32_t tag);

  // --- Markers

  // The number up to which a completion marker would say something new; 0: none.
  [[nodiscard]] std::uint64_t marker_due(StreamId id) const;
  // Whether a thread is about to put one there, or asks something of the stream.
  [[nodiscard]] bool marker_under_way(StreamId id) const {
    return streams_[id].marked > streams_[id].marker_put || streams_[id].asked;
  }
  // How many launches have been issued since the last one.
  [[nodiscard]] std::uint64_t uncovered(StreamId id) const;
  // Ends what has run; true if something has.
  bool take_ends();

  // Launches that have not ended; of those, that are not open.
  [[nodiscard]] std::uint32_t in_flight() const { return in_flight_; }
  [[nodiscard]] std::uint32_t waiting() const { return waiting_; }
  // Of those, for which the engine has no room or no bytes yet: ends of others may help them.
  [[nodiscard]] std::uint32_t unreleased() const { return unreleased_; }
  // The first of them on this stream, and the number of the first launch that has not ended, if
  // that one is open.
  [[nodiscard]] std::optional<std::uint32_t> first_unreleased(StreamId id) const;
  [[nodiscard]] std::optional<std::uint64_t> first_open(StreamId id) const;
  // Whether all of these are on this stream.
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
