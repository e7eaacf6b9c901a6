#include "cuda/timed_graph.h"

#include <cuda_runtime_api.h>

#include "cuda/cuda_status.h"

namespace warpconv::cuda {

TimedGraph::~TimedGraph() {
  // Fails only for what does not exist.
  if (executable_ != nullptr) (void)cudaGraphExecDestroy(executable_);
  if (graph_ != nullptr) (void)cudaGraphDestroy(graph_);
  for (cudaEvent_t event : {begin_, end_}) {
    if (event != nullptr) (void)cudaEventDestroy(event);
  }
}

Status TimedGraph::capture(const Enqueue& enqueue, int calls, cudaStream_t stream) {
  calls_ = calls;
  cudaError_t error = cudaEventCreate(&begin_);
  if (error == cudaSuccess) error = cudaEventCreate(&end_);
  if (error == cudaSuccess) error = cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
  if (error != cudaSuccess) return toStatus(error, "beginning a graph");
  Status enqueued;
  for (int call = 0; call < calls && enqueued.isOk(); ++call) enqueued = enqueue();
  error = cudaStreamEndCapture(stream, &graph_);
  if (!enqueued.isOk()) return enqueued;
  if (error == cudaSuccess) error = cudaGraphInstantiate(&executable_, graph_, 0);
  return toStatus(error, "making a graph");
}

Result<double> TimedGraph::time(cudaStream_t stream) const {
  cudaError_t error = cudaEventRecord(begin_, stream);
  if (error == cudaSuccess) error = cudaGraphLaunch(executable_, stream);
  if (error == cudaSuccess) error = cudaEventRecord(end_, stream);
  if (error == cudaSuccess) error = cudaEventSynchronize(end_);
  float milliseconds = 0;
  if (error == cudaSuccess) error = cudaEventElapsedTime(&milliseconds, begin_, end_);
  if (error != cudaSuccess) return toStatus(error, "timing a graph");
  return double{milliseconds} / calls_;
}

}  // namespace warpconv::cuda
