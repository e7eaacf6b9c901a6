#include "cuda/tune/tune.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "cuda/formats/converted.h"
#include "cuda/host/cuda_status.h"
#include "cuda/host/gpu_weights.h"
#include "cuda/host/random_floats.h"
#include "cuda/host/timed_calls.h"
#include "cuda/tune/promising_variants.h"
#include "planner/measure.h"

namespace warpconv::cuda {
namespace {

/** In one graph, as in comparisons with cuDNN; short calls need no more to be told apart. */
constexpr int kMostCallsPerGraph = 20;

/** Made on the device: to make 1.6 GB here and to copy them there took half a second of the two that tuning may. */
Result<DeviceMemory> noise(Device& device, int64_t count, cudaStream_t stream) {
  constexpr uint64_t kSeed = 1;
  Result<DeviceMemory> memory = device.allocate(floatBytes(count));
  if (!memory.isOk()) return memory;
  if (Status status = fillRandomly(memory.value(), kSeed, stream); !status.isOk()) return status;
  return memory;
}

/** The same numbers as a tensor of that format. */
Result<DeviceMemory> noiseIn(const TensorFormat& format, const FormatExtents& extents, Device& device,
                             cudaStream_t stream) {
  Result<DeviceMemory> floats = noise(device, extents.n * extents.channels * extents.area, stream);
  if (format == TensorFormat{} || !floats.isOk()) return floats;
  const int64_t bytes = spanOf(format, extents.n, extents.channels, extents.area) * widthOf(format.type);
  Result<DeviceMemory> memory = device.allocate(bytes);
  if (!memory.isOk()) return memory;
  Status status = convertFormat(extents, {}, floats.value().data(), format, memory.value().data(), stream);
  // The numbers are let go.
  if (status.isOk()) status = toStatus(cudaStreamSynchronize(stream), "making a tensor to measure with");
  if (!status.isOk()) return status;
  return memory;
}

/** What all contestants read and, one after the other, write. */
struct Arena {
  DeviceMemory input;
  DeviceMemory output;

  static Result<Arena> create(Device& device, const ConvProblem& x, cudaStream_t stream) {
    const FormatExtents extents{x.n, x.c, x.h * x.w};
    Result<DeviceMemory> input = noiseIn(x.format.input, extents, device, stream);
    if (!input.isOk()) return input.status();
    Result<DeviceMemory> output = device.allocate(x.outputBytes());
    if (!output.isOk()) return output.status();
    return Arena{std::move(input.value()), std::move(output.value())};
  }
};

/** One variant of an algorithm on a stream. All of its life is on one thread. */
class GpuMeasurable final : public Measurable {
 public:
  GpuMeasurable(const GpuAlgorithm& algorithm, GpuRequest request, const Arena& arena, Queue& queue,
                cudaStream_t stream)
      : algorithm_(algorithm), request_(std::move(request)), arena_(arena), queue_(queue), stream_(stream) {}
  // Memory that is let go must not be in use, and after a failure part of a call may still run.
  ~GpuMeasurable() override { (void)cudaStreamSynchronize(stream_); }

  Status prepare() override {
    const ConvProblem& x = request_.problem;
    // Each has weights of its own, which go once there are its forms of them.
    const Result<DeviceMemory> weight = noise(queue_.device(), x.weightSize(), stream_);
    if (!weight.isOk()) return weight.status();
    // They are prepared on another stream.
    if (Status status = wait("making weights"); !status.isOk()) return status;
    Weights forms(nullptr, x.k, x.filterSize());
    Tables tables(queue_);
    auto convolution =
        prepareConverted(algorithm_, request_, {forms, nullptr, queue_, tables, weight.value().floats()});
    if (!convolution.isOk()) return convolution.status();
    convolution_ = std::move(convolution.value());
    Result<DeviceMemory> workspace = queue_.device().allocate(estimateOf(algorithm_, request_).workspaceBytes);
    if (!workspace.isOk()) return workspace.status();
    workspace_ = std::move(workspace.value());
    if (Status status = stopwatch_.open(); !status.isOk()) return status;
    if (Status status = enqueue(); !status.isOk()) return status;
    return wait("running a kernel that is to be measured");
  }

  /** Kernels that have begun end, whatever the limit. */
  Result<double> once(double, const Cancellation*) override { return time(single_, 1); }

  Result<double> sample(int calls, const Cancellation* cancellation) override {
    if (cancellation != nullptr && cancellation->isRequested()) return stoppedWhileRunning();
    return time(several_, std::min(calls, kMostCallsPerGraph));
  }

 private:
  Status wait(const char* what) const { return toStatus(cudaStreamSynchronize(stream_), what); }

  Status enqueue() const {
    return convolution_->enqueue({arena_.input.data(), nullptr, arena_.output.data()}, workspace_.data(), stream_);
  }

  Result<double> time(std::optional<TimedCalls>& timed, int calls) {
    if (!timed) {
      timed.emplace([this] { return enqueue(); }, calls, stream_);
      // A graph's first launch uploads it.
      if (const Result<double> first = timed->time(stopwatch_); !first.isOk()) return first;
    }
    return timed->timeWarm(stopwatch_);
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
    const GpuRequest request{asked.problem, asked.activation, "", queue.device().traits(), asked.request.precision};
    for (const std::string& variant : promisingVariants(algorithm, request)) {
      GpuRequest one = request;
      one.variant = variant;
      const Candidate candidate =
          answer(algorithm.name, refusalOf(algorithm, one), asked.request, [&] { return estimateOf(algorithm, one); });
      if (!candidate.accepts()) continue;
      entrants.push_back({algorithm.name, variant, candidate.estimate.milliseconds,
                          std::make_unique<GpuMeasurable>(algorithm, std::move(one), arena, queue, stream)});
    }
  }
  return entrants;
}

}  // namespace

Result<std::vector<Measurement>> tune(Queue& queue, const PlanProblem& asked, const Cancellation* cancellation) {
  Result<std::vector<Measurement>> measurements = Status{StatusCode::internal, "nothing was measured"};
  Status ran = queue.compute([&](cudaStream_t stream) {
    const Result<Arena> arena = Arena::create(queue.device(), asked.problem, stream);
    if (!arena.isOk()) {
      measurements = arena.status();
      return arena.status();
    }
    measurements = compete(entrantsFor(asked, arena.value(), queue, stream), cancellation);
    return toStatus(cudaStreamSynchronize(stream), "measuring algorithms");
  });
  if (!measurements.isOk() || ran.isOk()) return measurements;
  return ran;
}

}  // namespace warpconv::cuda
