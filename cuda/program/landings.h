#pragma once

#include <array>
#include <cstdint>
#include <mutex>

#include "cuda/program/scratch.h"

namespace warpconv::cuda {

/** Page-locked memory where small outputs arrive, as part of a run's graph: one block for each set of ports. */
class Landings {
 public:
  /** Outputs that are larger are copied by the queue, which does not make the caller wait for all of it at once. */
  static constexpr int64_t kBytes = int64_t{64} << 10;

  Landings() = default;
  Landings(const Landings&) = delete;
  Landings& operator=(const Landings&) = delete;
  ~Landings();

  /** kBytes of it, or null where the system locks no more. Allocated when they are first asked for. */
  char* of(size_t set);

 private:
  std::mutex mutex_;
  std::array<char*, Scratch::kPorts> blocks_{};
};

}  // namespace warpconv::cuda
