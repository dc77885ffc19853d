// See device_launches.h.
#include "platform/cuda/stream/device_launches.h"

#include <algorithm>
#include <utility>

#include "base/grown_at.h"
#include "platform/common/process/clock.h"

namespace spillway::cuda {

// --- Streams ------------------------------------------------------------------------------------

std::optional<StreamId> DeviceLaunches::find(CuStream stream, CuContext context) const {
  const auto found = numbers_.find(name(stream, context));
  return found == numbers_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<StreamId> DeviceLaunches::add_stream(CuStream handle, CuContext context,
                                                   bool blocking) {
  if (free_streams_.empty()) {
    if (streams_.size() == StreamWaits::kStreams) {
      return std::nullopt;
    }
    free_streams_.push_back(static_cast<StreamId>(streams_.size()));
    streams_.emplace_back();
  }
  const StreamId id = free_streams_.back();
  free_streams_.pop_back();
  // Its numbers go on: words only grow.
  Stream& added = streams_[id];
  added.handle = handle;
  added.context = context;
  added.blocking = blocking;
  added.live = true;
  added.lost = false;
  added.shared.forget();
  added.null_waited = 0;
  added.waited_by_null = added.operations;
  numbers_[name(handle, context)] = id;
  return id;
}

void DeviceLaunches::forget(StreamId id) {
  Stream& gone = streams_[id];
  gone.live = false;
  numbers_.erase(name(gone.handle, gone.context));
  if (gone.launches.empty()) {
    free_streams_.push_back(id);
  }
}

void DeviceLaunches::lose(CuContext context) {
  for (Stream& stream : streams_) {
    // Also those that the program has destroyed, as long as something of theirs has not ended.
    stream.lost |= stream.context == context && (stream.live || !stream.launches.empty());
  }
}

bool DeviceLaunches::is_lost(CuContext context) const {
  return std::any_of(streams_.begin(), streams_.end(), [&](const Stream& stream) {
    return stream.context == context && stream.lost;
  });
}

// --- A launch -----------------------------------------------------------------------------------

std::uint32_t DeviceLaunches::begin(StreamId stream, LogRow row, std::span<const Access> accesses) {
  if (free_tags_.empty()) {
    free_tags_.push_back(static_cast<std::uint32_t>(launches_.size()));
    launches_.emplace_back();
  }
  const std::uint32_t tag = free_tags_.back();
  free_tags_.pop_back();
  Launch& launch = launches_[tag];
  // Its lists keep their memory.
  std::vector<Access> kept_accesses = std::move(launch.accesses);
  std::vector<BlockId> kept_missing = std::move(launch.missing);
  launch = {};
  launch.accesses = std::move(kept_accesses);
  launch.missing = std::move(kept_missing);
  launch.accesses.assign(accesses.begin(), accesses.end());
  launch.missing.clear();
  launch.stream = stream;
  launch.number = ++streams_[stream].issued;
  launch.through = launch.number;
  launch.row = row;
  for (const Access& access : launch.accesses) {
    for (BlockId block = access.first_block; block < access.first_block + access.block_count;
         ++block) {
      if (!engine_.space().block(block).mapped) {
        launch.missing.push_back(block);
      }
    }
  }
  streams_[stream].launches.push_back(tag);
  ++in_flight_;
  ++waiting_;
  ++unreleased_;
  ++streams_[stream].unreleased;
  return tag;
}

void DeviceLaunches::issued(std::uint32_t tag, LaunchId id) {
  launches_[tag].id = id;
  note_first(launches_[tag].stream);
}

void DeviceLaunches::oversized(std::uint32_t tag) {
  launches_[tag].oversized = true;
  ++oversized_;
}

void DeviceLaunches::released(std::uint32_t tag, std::uint32_t unbacked) {
  launches_[tag].released = true;
  --unreleased_;
  --streams_[launches_[tag].stream].unreleased;
  launches_[tag].released_ns = now_ns();
  launches_[tag].unbacked = unbacked;
  if (unbacked == 0) {
    open_those_ready(launches_[tag].stream);
  }
}

void DeviceLaunches::backed(std::uint32_t tag) {
  if (--launches_[tag].unbacked == 0) {
    open_those_ready(launches_[tag].stream);
  }
}

// The number up to which launches may go: the longest run of those that have their memory, without
// those that share their stream wait with one that has not.
std::uint64_t DeviceLaunches::ready_up_to(const Stream& stream, std::uint64_t opened) const {
  std::uint64_t ready = opened;
  for (std::size_t i = opened - stream.ended; i < stream.launches.size(); ++i) {
    const Launch& launch = launches_[stream.launches[i]];
    if (!launch.has_memory()) {
      return std::min(ready, launch.through - 1);
    }
    ready = launch.number;
  }
  return ready;
}

void DeviceLaunches::open_those_ready(StreamId id) {
  Stream& stream = streams_[id];
  const std::uint64_t opened = stream_waits_.opened(id);
  const std::uint64_t ready = ready_up_to(stream, opened);
  for (std::uint64_t number = opened + 1; number <= ready; ++number) {
    Launch& launch = launches_[stream.launches[number - stream.ended - 1]];
    launch.open = true;
    launch.opened_ns = now_ns();
    --waiting_;
    if (launch.first_ns != 0) {
      note_waited(stream, launch);
    }
  }
  if (ready > opened) {
    stream_waits_.open(id, ready);
  }
}

// It was the first of its stream. What held it up may be what another lacked that goes through its
// stream wait.
void DeviceLaunches::note_waited(const Stream& stream, const Launch& launch) {
  TimeNs released_ns = launch.released_ns;
  Source source = waited_for(launch);
  for (std::size_t i = launch.number - stream.ended; i < stream.launches.size(); ++i) {
    const Launch& with_it = launches_[stream.launches[i]];
    if (with_it.through > launch.number) {
      break;
    }
    released_ns = std::max(released_ns, with_it.released_ns);
    source = std::max(source, waited_for(with_it));
  }
  const TimeNs waited_ns = launch.opened_ns - launch.first_ns;
  const TimeNs unmapped_ns = launch.opened_ns - std::max(launch.first_ns, released_ns);
  ++waited_.count;
  waited_.unmapped_ns += unmapped_ns;
  waited_.unreleased_ns += waited_ns - unmapped_ns;
  stalls_.end();
  if (source != Source::kZeros) {
    log_.waited(launch.row, source, waited_ns);
  } else {
    log_.waited_for_room(launch.row, waited_ns);
  }
}

void DeviceLaunches::came_from(BlockId block, Source source) {
  grown_at(sources_, block, Source::kZeros) = source;
}

// Storage where any of it came from there: that is what took so long.
Source DeviceLaunches::waited_for(const Launch& launch) const {
  Source most = Source::kZeros;
  for (const BlockId block : launch.missing) {
    if (block < sources_.size()) {
      most = std::max(most, sources_[block]);
    }
  }
  return most;
}

bool DeviceLaunches::may_be_held(std::uint32_t tag, unsigned most) const {
  const StreamId id = launches_[tag].stream;
  return !bypassed_behind(id) &&
         (streams_[id].held_to > streams_[id].ended || waiting_streams_ < most);
}

bool DeviceLaunches::comes_behind(StreamId other, StreamId id) const {
  const Stream& who = streams_[other];
  const Stream& whom = streams_[id];
  return other == id ||
         (who.context == whom.context &&
          (whom.handle == nullptr ? who.blocking : whom.blocking && who.handle == nullptr));
}

// A call that is under way may come to the device behind a stream wait on this stream, and be what
// the stream wait waits for.
bool DeviceLaunches::bypassed_behind(StreamId id) const {
  for (StreamId other = 0; other < streams_.size(); ++other) {
    if (streams_[other].bypassed > 0 && comes_behind(other, id)) {
      return true;
    }
  }
  return false;
}

void DeviceLaunches::hold(std::uint32_t tag) {
  Launch& launch = launches_[tag];
  Stream& stream = streams_[launch.stream];
  waiting_streams_ += stream.held_to > stream.ended ? 0U : 1U;
  stream.held_to = launch.number;
  launch.held = true;
}

void DeviceLaunches::share_wait(std::uint32_t tag, const SharedWait::Launch& launch) {
  hold(tag);
  SharedWait& shared = streams_[launches_[tag].stream].shared;
  shared.take(launch);
  launches_[tag].through = shared.number();
}

std::optional<std::uint32_t> DeviceLaunches::first_unreleased(StreamId id) const {
  const auto& launches = streams_[id].launches;
  const auto found = std::find_if(launches.begin(), launches.end(),
                                  [this](std::uint32_t tag) { return !launches_[tag].released; });
  return found == launches.end() ? std::nullopt : std::optional(*found);
}

std::optional<std::uint64_t> DeviceLaunches::first_open(StreamId id) const {
  const auto& launches = streams_[id].launches;
  return launches.empty() || !launches_[launches.front()].open
             ? std::nullopt
             : std::optional(launches_[launches.front()].number);
}

std::optional<DeviceLaunches::HoldsUp> DeviceLaunches::holds_up(StreamId id) const {
  const Stream& stream = streams_[id];
  if (stream.launches.empty()) {
    return std::nullopt;
  }
  const Launch& first = launches_[stream.launches.front()];
  if (first.open || !first.has_memory()) {
    return std::nullopt;
  }
  const std::optional<std::uint32_t> other = first_unreleased(id);
  if (!other || launches_[*other].through > first.number) {
    return std::nullopt;
  }
  return HoldsUp{.tag = *other, .time_ns = now_ns() - std::max(first.first_ns, first.released_ns)};
}

// Another thread may make a later one first. Numbers on a stream have no gaps.
void DeviceLaunches::made(std::uint32_t tag) {
  launches_[tag].made = true;
  Stream& stream = streams_[launches_[tag].stream];
  while (stream.made < stream.issued &&
         launches_[stream.launches[stream.made - stream.ended]].made) {
    ++stream.made;
  }
}

void DeviceLaunches::bypassed_begun(std::uint32_t tag) {
  ++launches_[tag].bypassed;
  ++streams_[launches_[tag].stream].bypassed;
}

bool DeviceLaunches::bypassed_ended(std::uint32_t tag) {
  --launches_[tag].bypassed;
  made_if_none_bypassed(tag);
  return launches_[tag].bypassed == 0;
}

void DeviceLaunches::bypassed_covered(StreamId id) { --streams_[id].bypassed; }

void DeviceLaunches::made_if_none_bypassed(std::uint32_t tag) {
  if (launches_[tag].bypassed == 0) {
    made(tag);
  }
}

// The first of a stream that waits holds up the device.
void DeviceLaunches::note_first(StreamId id) {
  if (streams_[id].launches.empty()) {
    return;
  }
  Launch& first = launches_[streams_[id].launches.front()];
  if (!first.open && first.first_ns == 0) {
    first.first_ns = now_ns();
    stalls_.begin(first.first_ns);
  }
}

// --- Markers ------------------------------------------------------------------------------------

std::uint64_t DeviceLaunches::marker_due(StreamId id) const {
  if (uncovered(id) == 0 || streams_[id].lost) {
    return 0;
  }
  const Stream& stream = streams_[id];
  return stream.made > stream.marked ? stream.made : 0;
}

std::uint64_t DeviceLaunches::uncovered(StreamId id) const {
  return streams_[id].issued - std::max(streams_[id].marked, streams_[id].ended);
}

bool DeviceLaunches::others_covered(StreamId id) const {
  for (StreamId other = 0; other < streams_.size(); ++other) {
    if (other != id && uncovered(other) > 0) {
      return false;
    }
  }
  return true;
}

bool DeviceLaunches::take_ends() {
  bool some = false;
  for (StreamId id = 0; id < streams_.size(); ++id) {
    if (!streams_[id].launches.empty()) {
      const std::uint64_t run = streams_[id].lost ? streams_[id].made : stream_waits_.run_up_to(id);
      some |= end_up_to(id, run);
    }
  }
  return some;
}

// What the end of one launch sets off may open others.
bool DeviceLaunches::end_up_to(StreamId id, std::uint64_t number) {
  Stream& stream = streams_[id];
  bool some = false;
  const bool was_held = stream.held_to > stream.ended;
  while (!stream.launches.empty()) {
    const std::uint32_t tag = stream.launches.front();
    Launch& launch = launches_[tag];
    if (launch.number > number || !launch.open) {
      break;
    }
    if (EventLog* const events = log_.events()) {
      events->launch_ended(id, now_ns());
    }
    stream.launches.pop_front();
    stream.ended = launch.number;
    --in_flight_;
    oversized_ -= launch.oversized ? 1U : 0U;
    some = true;
    const TimeNs ended_ns = now_ns();
    const TimeNs began_ns = std::max(stream.ended_ns, launch.opened_ns);
    stream.ended_ns = ended_ns;
    ended_ns_ = ended_ns;
    engine_.end_launch(launch.id, ended_ns - began_ns);
    free_tags_.push_back(tag);
  }
  waiting_streams_ -= was_held && stream.held_to <= stream.ended ? 1U : 0U;
  if (some) {
    note_first(id);
    if (stream.launches.empty() && !stream.live) {
      free_streams_.push_back(id);
    }
  }
  return some;
}

std::vector<std::uint64_t> DeviceLaunches::issued_by_stream() const {
  std::vector<std::uint64_t> issued;
  issued.reserve(streams_.size());
  for (const Stream& stream : streams_) {
    issued.push_back(stream.issued);
  }
  return issued;
}

bool DeviceLaunches::have_ended(const std::vector<std::uint64_t>& issued) const {
  for (std::size_t id = 0; id < issued.size(); ++id) {
    if (streams_[id].ended < issued[id]) {
      return false;
    }
  }
  return true;
}

bool DeviceLaunches::any_of(CuContext context) const {
  return std::any_of(streams_.begin(), streams_.end(), [context](const Stream& stream) {
    return stream.context == context && !stream.launches.empty();
  });
}

bool DeviceLaunches::all_wait() const {
  return std::all_of(streams_.begin(), streams_.end(), [this](const Stream& stream) {
    return stream.launches.empty() || !launches_[stream.launches.front()].open;
  });
}

Status DeviceLaunches::check() const {
  unsigned held = 0;
  for (StreamId id = 0; id < streams_.size(); ++id) {
    held += streams_[id].held_to > streams_[id].ended ? 1U : 0U;
    if (stream_waits_.run_up_to(id) > stream_waits_.opened(id)) {
      return make_error(
          ErrorCode::kDefect,
          "invariant broken: stream {} has run up to launch {}, its stream wait is satisfied up "
          "to {}",
          id, stream_waits_.run_up_to(id), stream_waits_.opened(id));
    }
    for (const std::uint32_t tag : streams_[id].launches) {
      const Launch& launch = launches_[tag];
      if (!launch.open && launch.through <= stream_waits_.opened(id)) {
        return make_error(ErrorCode::kDefect,
                          "invariant broken: launch {} of stream {} is not open, and its stream "
                          "wait is satisfied",
                          launch.number, id);
      }
    }
  }
  if (held != waiting_streams_) {
    return make_error(ErrorCode::kDefect, "invariant broken: {} streams are held, counted as {}",
                      held, waiting_streams_);
  }
  return {};
}

}  // namespace spillway::cuda
