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

TimedCalls::TimedCalls(Enqueue enqueue, int count, cudaStream_t stream)
    : enqueue_(std::move(enqueue)),
      count_(count),
      stream_(stream),
      graph_(Graph::captured([this] { return enqueueAll(); }, stream)) {}

Status TimedCalls::enqueueAll() const {
  for (int call = 0; call < count_; ++call) {
    if (Status status = enqueue_(); !status.isOk()) return status;
  }
  return {};
}

Status TimedCalls::launch() const { return isGraph() ? graph_.launch(stream_) : enqueueAll(); }

Result<double> TimedCalls::time(const Stopwatch& stopwatch) const {
  Result<double> all = stopwatch.time([this] { return launch(); }, stream_);
  if (!all.isOk()) return all;
  return all.value() / count_;
}

}  // namespace warpconv::cuda
