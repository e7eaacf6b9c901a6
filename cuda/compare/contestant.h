#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "status.h"

namespace warpconv::cuda {

/** One way to compute the problem of a contest, on the contest's stream and tensors. */
class Contestant {
 public:
  virtual ~Contestant() = default;
  virtual std::string algorithm() const = 0;
  virtual int64_t workspaceBytes() const = 0;
  /** Enqueues the whole computation. `workspace` has workspaceBytes() and is shared by all contestants. */
  virtual Status enqueue(void* workspace) const = 0;
};

using Contestants = std::vector<std::unique_ptr<Contestant>>;

}  // namespace warpconv::cuda
