#pragma once

#include <cuda_runtime_api.h>

#include <chrono>

namespace warpconv::cuda {

using Clock = std::chrono::steady_clock;

/** Of an event that is waited for: see waitFor. */
inline constexpr unsigned kEventFlags = cudaEventDisableTiming | cudaEventBlockingSync;

struct Waited {
  cudaError_t error;
  /** Whether the event had come when the thread first looked after a sleep */
  bool hasOverslept;
};

/** Waits for an event that is expected at that time, awake only around it. */
Waited waitFor(cudaEvent_t event, Clock::time_point expected);

/** The same for one that is expected soon. */
inline cudaError_t waitFor(cudaEvent_t event) { return waitFor(event, Clock::now()).error; }

}  // namespace warpconv::cuda
