#include "cuda/timed_calls.h"

#include <utility>

#include "cuda/cuda_status.h"

namespace warpconv::cuda {

Stopwatch::~Stopwatch() {
  for (cudaEvent_t event : {begin_, end_}) {
    // Fails only when the context is lost, and the event with it.
    if (event != nullptr) (void)cudaEventDestroy(event);
  }
}

Status Stopwatch::open() {
  cudaError_t error = cudaEventCreate(&begin_);
  if (error == cudaSuccess) error = cudaEventCreate(&end_);
  return toStatus(error, "creating events");
}

Result<double> Stopwatch::time(const Enqueue& enqueue, cudaStream_t stream) const {
  cudaError_t error = cudaEventRecord(begin_, stream);
  if (error != cudaSuccess) return toStatus(error, "timing");
  if (Status status = enqueue(); !status.isOk()) return status;
  error = cudaEventRecord(end_, stream);
  if (error == cudaSuccess) error = cudaEventSynchronize(end_);
  float milliseconds = 0;
  if (error == cudaSuccess) error = cudaEventElapsedTime(&milliseconds, begin_, end_);
  if (error != cudaSuccess) return toStatus(error, "timing");
  return double{milliseconds};
}

// Fails only for what does not exist.
void TimedCalls::DestroyGraph::operator()(cudaGraphExec_t graph) const { (void)cudaGraphExecDestroy(graph); }

TimedCalls::TimedCalls(Enqueue enqueue, int count, cudaStream_t stream)
    : enqueue_(std::move(enqueue)), count_(count), stream_(stream), graph_(captured(enqueue_, count, stream)) {}

/** `calls` calls as one graph, or nothing where a call cannot be captured. */
TimedCalls::Graph TimedCalls::captured(const Enqueue& enqueue, int calls, cudaStream_t stream) {
  if (!toStatus(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capturing").isOk()) return {};
  bool taken = true;
  for (int call = 0; call < calls && taken; ++call) taken = enqueue().isOk();
  cudaGraph_t graph = nullptr;
  // Also where a call has failed: the stream must not stay in capture.
  taken = toStatus(cudaStreamEndCapture(stream, &graph), "capturing").isOk() && taken;
  cudaGraphExec_t executable = nullptr;
  if (taken) (void)toStatus(cudaGraphInstantiate(&executable, graph, 0), "making a graph");
  if (graph != nullptr) (void)cudaGraphDestroy(graph);
  return Graph(executable);
}

Status TimedCalls::launch() const {
  if (isGraph()) return toStatus(cudaGraphLaunch(graph_.get(), stream_), "launching a graph");
  for (int call = 0; call < count_; ++call) {
    if (Status status = enqueue_(); !status.isOk()) return status;
  }
  return {};
}

Result<double> TimedCalls::time(const Stopwatch& stopwatch) const {
  Result<double> all = stopwatch.time([this] { return launch(); }, stream_);
  if (!all.isOk()) return all;
  return all.value() / count_;
}

}  // namespace warpconv::cuda
