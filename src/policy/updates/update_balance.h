// Where each update runs, by measured rates: on the side that ends it first. Layer: policy. Pure:
// times come in with events, and the same events give the same answers. Shared by all platforms and
// the simulator. docs/near-memory.md, "Where an update runs".
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <span>
#include <unordered_map>

#include "engine/memory/space.h"
#include "engine/types.h"
#include "policy/updates/update_share.h"

namespace spillway {

// What an update costs if it runs on one side, in bytes.
struct UpdateWork {
  Bytes up_bytes = 0;    // over the link to the device
  Bytes down_bytes = 0;  // over the link from the device
  Bytes host_bytes = 0;  // that the processor moves through host memory
};
struct UpdateWorks {
  UpdateWork on_device;
  UpdateWork at_host;
};

// On the device, what is not there has to come, and what it writes of that has to leave again some
// day. At the host, what is on the device has to come down, but for what is below as well; of that
// what it writes, the parameter, is wanted on the device again; and the processor reads everything
// and writes what is written (28 bytes a parameter of Adam in float32).
[[nodiscard]] UpdateWorks works_of(const Launch& update, const Space& space);
// Whether fewer bytes cross the link if it runs at the host.
[[nodiscard]] inline bool moves_less_at_host(const UpdateWorks& works) {
  return works.at_host.up_bytes + works.at_host.down_bytes <
         works.on_device.up_bytes + works.on_device.down_bytes;
}

// In bytes a second; 0: not known.
struct UpdateRates {
  double up = 0;
  double down = 0;
  double host = 0;  // of host_bytes, by all cores that updates have
};

class UpdateBalance {
 public:
  enum class Device : std::uint8_t {
    kOwnMemory,   // a device computes updates in no time, next to the link
    kHostMemory,  // the same cores compute on both sides (the host platform)
  };
  struct Placement {
    Tier runs_at = Tier::kDevice;
    Bytes host_bytes = 0;  // for update_ended or withdrawn, where it runs at the host
  };

  // `start`: until there are measurements. While a rate is not known, the bytes that cross the link
  // decide (moves_less_at_host).
  explicit UpdateBalance(Device device = Device::kOwnMemory, const UpdateRates& start = {});

  // The side on which the update ends first, behind what is queued there; on a device with its own
  // memory only until UpdateShare, which decides then, has seen enough. From here on the update
  // counts as queued on that side.
  [[nodiscard]] Placement place(const Launch& update, const Space& space, TimeNs now_ns);

  // UpdateShare::used
  void used(std::span<const Access> accesses) { share_.used(accesses); }

  // An update at the host has ended: the processor was busy with it for so long.
  void update_ended(Bytes host_bytes, TimeNs busy_ns);
  // ... or does not run there after all.
  void withdrawn(const Launch& update, Bytes host_bytes);

  // Every transfer from or to the device, whatever it is for. `moved`: it has not failed.
  void transfer_began(const Transfer& transfer, TimeNs now_ns);
  void transfer_ended(const Transfer& transfer, TimeNs now_ns, bool moved = true);

  // As measured by now.
  [[nodiscard]] UpdateRates rates() const;
  // Work of updates that is placed and not done.
  [[nodiscard]] UpdateWork queued() const;

 private:
  // Bytes over busy time, of which what was measured last weighs most.
  class Rate {
   public:
    explicit Rate(double start);
    void measured(Bytes bytes, TimeNs busy_ns);
    [[nodiscard]] double bytes_per_s() const;  // 0: not known

   private:
    double bytes_ = 0;
    double busy_s_ = 0;
  };
  // One direction of the link.
  struct Lane {
    explicit Lane(double start) : rate(start) {}
    // Blocks that will cross it for updates.
    struct Promise {
      Bytes bytes = 0;
      std::uint64_t number = 0;
    };
    struct Age {
      TimeNs since_ns = 0;
      std::uint64_t number = 0;
      BlockId block = 0;
    };
    void promise(BlockId block, Bytes bytes, TimeNs now_ns);
    Bytes take_back(BlockId block);
    void forget_old(TimeNs now_ns);
    // What it has for updates beside the rest of its traffic; 0: not known.
    [[nodiscard]] double bytes_per_s(TimeNs now_ns) const;

    Rate rate;
    std::unordered_map<BlockId, Promise> promised;
    std::deque<Age> ages;  // of promises, some of which have been kept
    std::uint64_t last_number = 0;
    Bytes promised_bytes = 0;
    std::uint32_t in_flight = 0;
    TimeNs busy_since_ns = 0;  // or since the last transfer ended
    double other_bytes = 0;    // that were not for updates, of late
    TimeNs other_ns = 0;       // when that was so
  };

  [[nodiscard]] Lane* lane_of(const Transfer& transfer);
  [[nodiscard]] bool stays(BlockId id, const Block& block) const;
  [[nodiscard]] bool at_host_is_faster(const UpdateWorks& works, TimeNs now_ns) const;
  void book(const Launch& update, const Space& space, bool at_host, TimeNs now_ns);

  Device device_;
  UpdateShare share_;
  Lane up_;
  Lane down_;
  Rate host_;
  Bytes host_queued_bytes_ = 0;
  // Blocks of updates that have been placed, and whether they have come to the device since.
  std::unordered_map<BlockId, bool> came_;
};

}  // namespace spillway
