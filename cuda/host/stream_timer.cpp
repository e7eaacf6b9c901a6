#include "cuda/host/stream_timer.h"

#include <cuda_runtime_api.h>

#include "cuda/host/cuda_status.h"

namespace warpconv::cuda {

StreamTimer::~StreamTimer() {
  // Fails only when the context is lost, and the events with it.
  for (cudaEvent_t event : events_) (void)cudaEventDestroy(event);
}

Status StreamTimer::mark(cudaStream_t stream) {
  cudaEvent_t event = nullptr;
  if (Status status = toStatus(cudaEventCreate(&event), "creating an event"); !status.isOk()) return status;
  events_.push_back(event);
  return toStatus(cudaEventRecord(event, stream), "timing");
}

Result<std::vector<double>> StreamTimer::times() const {
  std::vector<double> times;
  if (events_.empty()) return times;
  cudaError_t error = cudaEventSynchronize(events_.back());
  for (size_t i = 1; i < events_.size() && error == cudaSuccess; ++i) {
    float milliseconds = 0;
    error = cudaEventElapsedTime(&milliseconds, events_[i - 1], events_[i]);
    times.push_back(double{milliseconds});
  }
  if (error != cudaSuccess) return toStatus(error, "timing");
  return times;
}

}  // namespace warpconv::cuda
