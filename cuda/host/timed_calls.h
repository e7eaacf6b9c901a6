#pragma once

#include <cuda_runtime_api.h>

#include "cuda/host/graph.h"
#include "cuda/host/stream_gate.h"
#include "status.h"

namespace warpconv::cuda {

/**
 * Two events on a stream, and the time between them, once all is launched that lies between: launching a graph of
 * twenty calls took the processor beside an H100 4 us, which would come to the 2 us of each of the shortest calls as
 * 0.2.
 */
class Stopwatch {
 public:
  Stopwatch() = default;
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;
  ~Stopwatch();

  Status open();
  /** Milliseconds on the device from the first to the last of what `enqueue` enqueues. Blocks. */
  Result<double> time(const Enqueue& enqueue, cudaStream_t stream);

 private:
  cudaEvent_t begin_ = nullptr;
  cudaEvent_t end_ = nullptr;
  StreamGate gate_;
};

/**
 * Calls that start together: as a graph, so that a launch costs what it costs inside a network, or where they cannot be
 * captured, one after the other. A call must have run before: what a first one loads cannot be captured.
 */
class TimedCalls {
 public:
  TimedCalls(Enqueue enqueue, int count, cudaStream_t stream);

  int count() const { return count_; }
  bool isGraph() const { return graph_.isGiven(); }
  Status launch() const;
  /** Milliseconds a call. */
  Result<double> time(Stopwatch& stopwatch) const;
  /**
   * The same after as many calls that are not timed, which bring back to the caches what others have driven out of
   * them: where contestants take turns, the first of twenty calls reads its instructions and operands from the device
   * memory, which took 1 to 5 us of a kernel's on an H100, and 7 us of those of cuBLAS.
   */
  Result<double> timeWarm(Stopwatch& stopwatch) const;

 private:
  Status enqueueAll() const;

  Enqueue enqueue_;
  int count_;
  cudaStream_t stream_;
  Graph graph_;
};

}  // namespace warpconv::cuda
