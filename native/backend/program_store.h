#pragma once

#include <cstdint>

namespace warpconv::program {

/**
 * What the programs of one network share on one device, whatever the extents of their inputs: what was made of weights
 * and other constants, and the scratch memory of runs. Any thread may call it.
 */
class Store {
 public:
  virtual ~Store() = default;
  /** Bytes of the device's memory that it holds now */
  virtual int64_t bytes() const = 0;
  /** Those of them that are scratch memory of runs, idle or not */
  virtual int64_t scratchBytes() const = 0;
  /** Gives back the scratch memory that no run uses, and what was made of weights for programs that are gone. */
  virtual void trim() = 0;
};

}  // namespace warpconv::program
