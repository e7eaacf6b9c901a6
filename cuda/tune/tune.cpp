#include "cuda/tune/tune.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "cuda/cuda_status.h"
#include "cuda/timed_calls.h"
#include "cuda/tune/variants.h"
#include "memory/aligned_buffer.h"

namespace warpconv::cuda {
namespace {

/** In one graph, as in comparisons with cuDNN; short calls need no more to be told apart. */
constexpr int kMostCallsPerGraph = 20;

int64_t floatBytes(int64_t count) { return count * static_cast<int64_t>(sizeof(float)); }

Result<DeviceMemory> noise(Queue& queue, int64_t count) {
  AlignedBuffer values(count);
  fillWithNoise(values.data(), count);
  Result<DeviceMemory> memory = queue.device().allocate(floatBytes(count));
  if (!memory.isOk()) return memory;
  if (Status status = queue.upload(values.data(), memory.value()); !status.isOk()) return status;
  return memory;
}

/** What all contestants read and, one after the other, write. */
struct Arena {
  DeviceMemory input;
  DeviceMemory output;

  static Result<Arena> create(Queue& queue, const ConvProblem& x) {
    Result<DeviceMemory> input = noise(queue, x.inputSize());
    if (!input.isOk()) return input.status();
    Result<DeviceMemory> output = queue.device().allocate(floatBytes(x.outputSize()));
    if (!output.isOk()) return output.status();
    return Arena{std::move(input.value()), std::move(output.value())};
  }
};

/** One variant of an algorithm on a stream. All of its life is on one thread. */
class GpuContestant final : public Contestant {
 public:
  GpuContestant(const GpuAlgorithm& algorithm, GpuRequest request, const Arena& arena, Queue& queue,
                cudaStream_t stream)
      : algorithm_(algorithm), request_(std::move(request)), arena_(arena), queue_(queue), stream_(stream) {}
  // Memory that is let go must not be in use, and after a failure part of a call may still run.
  ~GpuContestant() override { (void)cudaStreamSynchronize(stream_); }

  Status prepare() override {
    // Each has weights of its own, which it may keep transformed.
    Result<DeviceMemory> weight = noise(queue_, request_.problem.weightSize());
    if (!weight.isOk()) return weight.status();
    if (Status status = queue_.wait(); !status.isOk()) return status;
    auto convolution = algorithm_.prepare(request_, {std::move(weight.value()), {}}, queue_.device());
    if (!convolution.isOk()) return convolution.status();
    convolution_ = std::move(convolution.value());
    Result<DeviceMemory> workspace = queue_.device().allocate(algorithm_.estimate(request_).workspaceBytes);
    if (!workspace.isOk()) return workspace.status();
    workspace_ = std::move(workspace.value());
    if (Status status = stopwatch_.open(); !status.isOk()) return status;
    if (Status status = enqueue(); !status.isOk()) return status;
    return toStatus(cudaStreamSynchronize(stream_), "running a kernel that is to be measured");
  }

  /** Kernels that have begun end, whatever the limit. */
  Result<double> once(double, const Cancellation*) override { return time(single_, 1); }

  Result<double> sample(int calls, const Cancellation* cancellation) override {
    if (cancellation != nullptr && cancellation->isRequested()) return stoppedWhileRunning();
    return time(several_, std::min(calls, kMostCallsPerGraph));
  }

 private:
  Status enqueue() const {
    return convolution_->enqueue({arena_.input.floats(), nullptr, arena_.output.floats()}, workspace_.data(), stream_);
  }

  Result<double> time(std::optional<TimedCalls>& timed, int calls) const {
    if (!timed) {
      timed.emplace([this] { return enqueue(); }, calls, stream_);
      // A graph's first launch uploads it.
      if (const Result<double> warm = timed->time(stopwatch_); !warm.isOk()) return warm;
    }
    return timed->time(stopwatch_);
  }

  const GpuAlgorithm& algorithm_;
  const GpuRequest request_;
  const Arena& arena_;
  Queue& queue_;
  const cudaStream_t stream_;
  std::unique_ptr<GpuConvolution> convolution_;
  DeviceMemory workspace_;
  Stopwatch stopwatch_;
  std::optional<TimedCalls> single_;
  std::optional<TimedCalls> several_;
};

std::vector<Entrant> entrantsFor(const PlanProblem& asked, const Arena& arena, Queue& queue, cudaStream_t stream) {
  std::vector<Entrant> entrants;
  for (const GpuAlgorithm& algorithm : gpuAlgorithms()) {
    const GpuRequest request{asked.problem, asked.activation, "", queue.device().traits()};
    for (const std::string& variant : promisingVariants(algorithm, request)) {
      GpuRequest one = request;
      one.variant = variant;
      const Candidate candidate =
          answer(algorithm.name, algorithm.refusal(one), asked.request, [&] { return algorithm.estimate(one); });
      if (!candidate.accepts()) continue;
      entrants.push_back({algorithm.name, variant, candidate.estimate.milliseconds,
                          std::make_unique<GpuContestant>(algorithm, std::move(one), arena, queue, stream)});
    }
  }
  return entrants;
}

}  // namespace

Result<std::vector<Measurement>> tune(Queue& queue, const PlanProblem& asked, const Cancellation* cancellation) {
  Result<Arena> arena = Arena::create(queue, asked.problem);
  if (!arena.isOk()) return arena.status();
  Result<std::vector<Measurement>> measurements = Status{StatusCode::internal, "nothing was measured"};
  Status ran = queue.compute([&](cudaStream_t stream) {
    measurements = compete(entrantsFor(asked, arena.value(), queue, stream), cancellation);
    return toStatus(cudaStreamSynchronize(stream), "measuring algorithms");
  });
  if (!measurements.isOk() || ran.isOk()) return measurements;
  return ran;
}

}  // namespace warpconv::cuda
