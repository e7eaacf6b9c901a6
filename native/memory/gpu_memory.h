#pragma once

#include <cstdint>

namespace warpconv {

/** Elements in a GPU's memory. Let go of it when no call uses it any more, and not on a thread of the driver. */
class GpuMemory {
 public:
  virtual ~GpuMemory() = default;
  virtual int64_t bytes() const = 0;
  /** The number N of `cuda:N` */
  virtual int device() const = 0;
};

}  // namespace warpconv
