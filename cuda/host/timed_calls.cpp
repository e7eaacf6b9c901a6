#include "cuda/host/timed_calls.h"

#include <utility>

#include "cuda/host/cuda_status.h"

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
  if (Status status = toStatus(error, "creating events"); !status.isOk()) return status;
  return gate_.prepare();
}

Result<double> Stopwatch::time(const Enqueue& enqueue, cudaStream_t stream) {
  if (Status status = gate_.close(stream); !status.isOk()) return status;
  cudaError_t error = cudaEventRecord(begin_, stream);
  const Status enqueued = error == cudaSuccess ? enqueue() : Status{};
  if (error == cudaSuccess) error = cudaEventRecord(end_, stream);
  gate_.open();
  if (!enqueued.isOk()) return enqueued;
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

Result<double> TimedCalls::time(Stopwatch& stopwatch) const {
  Result<double> all = stopwatch.time([this] { return launch(); }, stream_);
  if (!all.isOk()) return all;
  return all.value() / count_;
}

Result<double> TimedCalls::timeWarm(Stopwatch& stopwatch) const {
  if (Status status = launch(); !status.isOk()) return status;
  return time(stopwatch);
}

}  // namespace warpconv::cuda
