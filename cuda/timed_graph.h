#pragma once

#include <functional>

#include "status.h"

// As the CUDA runtime's headers have them.
typedef struct CUstream_st* cudaStream_t;
typedef struct CUevent_st* cudaEvent_t;
typedef struct CUgraph_st* cudaGraph_t;
typedef struct CUgraphExec_st* cudaGraphExec_t;

namespace warpconv::cuda {

/** Enqueues one call on the stream that it knows of. */
using Enqueue = std::function<Status()>;

/** Calls as one graph, so that a launch costs what it costs inside a network. */
class TimedGraph {
 public:
  TimedGraph() = default;
  TimedGraph(const TimedGraph&) = delete;
  TimedGraph& operator=(const TimedGraph&) = delete;
  ~TimedGraph();

  bool isCaptured() const { return executable_ != nullptr; }
  /** Once. `enqueue` must have run before: what a first call loads cannot be captured. */
  Status capture(const Enqueue& enqueue, int calls, cudaStream_t stream);
  /** Milliseconds of a call, from the graph's begin to its end on the device. */
  Result<double> time(cudaStream_t stream) const;

 private:
  int calls_ = 0;
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t executable_ = nullptr;
  cudaEvent_t begin_ = nullptr;
  cudaEvent_t end_ = nullptr;
};

}  // namespace warpconv::cuda
