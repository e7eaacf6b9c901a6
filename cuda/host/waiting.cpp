#include "cuda/host/waiting.h"

#include <thread>

namespace warpconv::cuda {
namespace {

/**
 * A thread polls that long before the event is expected, and after. On an H200 it sees the end of a graph after 4 us.
 * One that sleeps in the driver sees it 15 to 80 us later than that, the longer the work the later. Linux's own timers
 * are up to 50 us late.
 */
constexpr std::chrono::microseconds kPolling(100);

/** Shorter sleeps save little: a processor takes tens of microseconds to wake, and is slower for a while. */
constexpr std::chrono::microseconds kLeastSleep(200);

}  // namespace

Waited waitFor(cudaEvent_t event, Clock::time_point expected) {
  const Clock::time_point wake = expected - kPolling;
  const bool sleeps = wake - Clock::now() >= kLeastSleep;
  if (sleeps) std::this_thread::sleep_until(wake);
  cudaError_t error = cudaEventQuery(event);
  const bool hasOverslept = sleeps && error == cudaSuccess;
  const Clock::time_point end = expected + kPolling;
  while (error == cudaErrorNotReady && Clock::now() < end) error = cudaEventQuery(event);
  // The runtime reports what is not ready yet as the last error, too.
  (void)cudaGetLastError();
  if (error == cudaErrorNotReady) error = cudaEventSynchronize(event);
  return {error, hasOverslept};
}

}  // namespace warpconv::cuda
