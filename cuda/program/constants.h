#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "cuda/host/queue.h"
#include "memory/host_bytes.h"

namespace warpconv::cuda {

/**
 * Copies of several pieces in one block of the device, each on a boundary of 256 bytes. Blocks until all are there, and
 * fills `addresses`, for each piece one, null where it has no bytes.
 */
Result<DeviceMemory> bringTogether(Queue& queue, std::span<const HostBytes> pieces, std::vector<const void*>& addresses);

/** Where constants lie on the device, and what keeps them there. */
struct PlacedConstants {
  std::vector<const void*> addresses;
  std::vector<std::shared_ptr<const DeviceMemory>> blocks;
};

/**
 * Copies of a network's constants on the device, by where they lie on the CPU, where they stay as they are for as long
 * as this lives. Any thread may call it.
 */
class Constants {
 public:
  explicit Constants(Queue& queue) : queue_(queue) {}

  /** Brings those that are not there. Blocks until all are. */
  Result<PlacedConstants> place(std::span<const HostBytes> wanted);
  int64_t bytes() const;
  /** Gives back those that nobody else has. */
  void trim();

 private:
  using Key = std::pair<const void*, int64_t>;
  struct Placed {
    const void* address;
    std::shared_ptr<const DeviceMemory> block;
  };
  /** With the mutex held. */
  Status bringMissing(std::span<const HostBytes> wanted);

  Queue& queue_;
  mutable std::mutex mutex_;
  std::map<Key, Placed> placed_;
};

}  // namespace warpconv::cuda
