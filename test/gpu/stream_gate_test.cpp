#include "cuda/host/stream_gate.h"

#include <cuda_runtime_api.h>
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "cuda/host/cuda_status.h"
#include "cuda/host/own_stream.h"
#include "cuda/host/timed_calls.h"
#include "support/runs.h"

namespace warpconv {
namespace {

constexpr int kTurns = 5;
using Milliseconds = std::chrono::duration<double, std::milli>;

TEST_CASE("a stream waits at a closed gate until it is opened, and for a millisecond at most") {
  (void)test::device();
  const Status ran = cuda::runOnOwnStream("holding", [](cudaStream_t stream) {
    cuda::StreamGate gate;
    CHECK(gate.prepare().isOk());
    int held = 0;
    for (int turn = 0; turn < kTurns; ++turn) {
      CHECK(gate.close(stream).isOk());
      if (cudaStreamQuery(stream) == cudaErrorNotReady) ++held;
      gate.open();
      CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
    }
    // Each, but on a machine that stood still meanwhile.
    CHECK(held > 0);
    const auto begun = std::chrono::steady_clock::now();
    CHECK(gate.close(stream).isOk());
    CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
    CHECK(Milliseconds(std::chrono::steady_clock::now() - begun).count() > 0.9);
    return cudaSuccess;
  });
  CHECK(ran.isOk());
}

TEST_CASE("a stopwatch leaves out what the processor takes to enqueue") {
  (void)test::device();
  const Status ran = cuda::runOnOwnStream("timing", [](cudaStream_t stream) {
    cuda::Stopwatch stopwatch;
    CHECK(stopwatch.open().isOk());
    double least = 1;
    for (int turn = 0; turn < kTurns; ++turn) {
      const Result<double> milliseconds = stopwatch.time(
          [] {
            std::this_thread::sleep_for(std::chrono::microseconds(300));
            return Status{};
          },
          stream);
      REQUIRE(milliseconds.isOk());
      least = std::min(least, milliseconds.value());
    }
    CHECK(least < 0.1);
    return cudaSuccess;
  });
  CHECK(ran.isOk());
}

TEST_CASE("a stopwatch gives on what fails, and can be used again") {
  (void)test::device();
  const Status ran = cuda::runOnOwnStream("timing", [](cudaStream_t stream) {
    cuda::Stopwatch stopwatch;
    CHECK(stopwatch.open().isOk());
    const Result<double> failed = stopwatch.time([] { return Status{StatusCode::internal, "no"}; }, stream);
    CHECK(failed.status().message() == "no");
    CHECK(stopwatch.time([] { return Status{}; }, stream).isOk());
    return cudaSuccess;
  });
  CHECK(ran.isOk());
}

}  // namespace
}  // namespace warpconv
