#include "cuda/compare/compare.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <functional>
#include <utility>

#include "cuda/compare/cudnn.h"
#include "cuda/compare/oracle.h"
#include "cuda/cuda_status.h"

namespace warpconv::cuda {
namespace {

using Enqueue = std::function<Status()>;

constexpr int kCallsPerGraph = 20;
constexpr int kRounds = 11;

/** Twenty calls as one graph, so that a launch costs what it costs inside a network. */
class TimedGraph {
 public:
  TimedGraph() = default;
  TimedGraph(const TimedGraph&) = delete;
  TimedGraph& operator=(const TimedGraph&) = delete;
  ~TimedGraph() {
    // Fails only for what does not exist.
    if (executable_ != nullptr) (void)cudaGraphExecDestroy(executable_);
    if (graph_ != nullptr) (void)cudaGraphDestroy(graph_);
    for (cudaEvent_t event : {begin_, end_}) {
      if (event != nullptr) (void)cudaEventDestroy(event);
    }
  }

  Status capture(const Enqueue& enqueue, cudaStream_t stream) {
    cudaError_t error = cudaEventCreate(&begin_);
    if (error == cudaSuccess) error = cudaEventCreate(&end_);
    if (error == cudaSuccess) error = cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
    if (error != cudaSuccess) return toStatus(error, "beginning a graph");
    Status enqueued;
    for (int call = 0; call < kCallsPerGraph && enqueued.isOk(); ++call) enqueued = enqueue();
    error = cudaStreamEndCapture(stream, &graph_);
    if (!enqueued.isOk()) return enqueued;
    if (error == cudaSuccess) error = cudaGraphInstantiate(&executable_, graph_, 0);
    return toStatus(error, "making a graph");
  }

  /** Milliseconds a call. */
  Result<double> time(cudaStream_t stream) const {
    cudaError_t error = cudaEventRecord(begin_, stream);
    if (error == cudaSuccess) error = cudaGraphLaunch(executable_, stream);
    if (error == cudaSuccess) error = cudaEventRecord(end_, stream);
    if (error == cudaSuccess) error = cudaEventSynchronize(end_);
    float milliseconds = 0;
    if (error == cudaSuccess) error = cudaEventElapsedTime(&milliseconds, begin_, end_);
    if (error != cudaSuccess) return toStatus(error, "timing a graph");
    return double{milliseconds} / kCallsPerGraph;
  }

 private:
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t executable_ = nullptr;
  cudaEvent_t begin_ = nullptr;
  cudaEvent_t end_ = nullptr;
};

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/** Medians of both, timed in turns; the first round warms up. */
Result<std::pair<double, double>> timeInTurns(const Enqueue& first, const Enqueue& second, cudaStream_t stream) {
  std::array<TimedGraph, 2> graphs;
  std::array<std::vector<double>, 2> samples;
  if (Status status = graphs[0].capture(first, stream); !status.isOk()) return status;
  if (Status status = graphs[1].capture(second, stream); !status.isOk()) return status;
  for (int round = 0; round <= kRounds; ++round) {
    for (size_t side = 0; side < 2; ++side) {
      Result<double> sample = graphs[side].time(stream);
      if (!sample.isOk()) return sample.status();
      if (round > 0) samples[side].push_back(sample.value());
    }
  }
  return std::pair{median(samples[0]), median(samples[1])};
}

Result<DeviceMemory> uploaded(Queue& queue, const float* from, int64_t count) {
  Result<DeviceMemory> memory = queue.device().allocate(count * static_cast<int64_t>(sizeof(float)));
  if (!memory.isOk()) return memory;
  if (Status status = queue.upload(from, memory.value()); !status.isOk()) return status;
  return memory;
}

/** Everything on the device that the two sides share. */
struct Arena {
  DeviceMemory input;
  DeviceMemory weight;
  DeviceMemory output;

  static Result<Arena> create(Queue& queue, const ConvProblem& x, const float* input, const float* weight) {
    Result<DeviceMemory> image = uploaded(queue, input, x.inputSize());
    if (!image.isOk()) return image.status();
    Result<DeviceMemory> filters = uploaded(queue, weight, x.weightSize());
    if (!filters.isOk()) return filters.status();
    Result<DeviceMemory> result = queue.device().allocate(x.outputSize() * static_cast<int64_t>(sizeof(float)));
    if (!result.isOk()) return result.status();
    return Arena{std::move(image.value()), std::move(filters.value()), std::move(result.value())};
  }
};

Result<Errors> judged(const Oracle& oracle, const Enqueue& enqueue, const Arena& arena, Device& device,
                      cudaStream_t stream) {
  if (Status status = enqueue(); !status.isOk()) return status;
  return oracle.judge(arena.output.floats(), device, stream);
}

/** All of it on one stream, by one thread. */
Result<CudnnComparison> compareOn(cudaStream_t stream, Queue& queue, const GpuAlgorithm& algorithm,
                                  const GpuRequest& request, const Arena& arena, DeviceMemory weight,
                                  const std::shared_ptr<const Cudnn>& cudnn) {
  Device& device = queue.device();
  Result<DeviceMemory> workspace = device.allocate(algorithm.estimate(request).workspaceBytes);
  if (!workspace.isOk()) return workspace.status();
  auto ours = algorithm.prepare(request, {std::move(weight), {}}, device);
  if (!ours.isOk()) return ours.status();
  auto theirs = CudnnConvolution::create(cudnn, request.problem, arena.input.floats(), arena.weight.floats(),
                                         arena.output.floats(), device, stream);
  if (!theirs.isOk()) return theirs.status();
  Result<Oracle> oracle = Oracle::create(request.problem, arena.input.floats(), arena.weight.floats(), device, stream);
  if (!oracle.isOk()) return oracle.status();

  const Enqueue runOurs = [&] {
    return ours.value()->enqueue({arena.input.floats(), nullptr, arena.output.floats()}, workspace.value().data(),
                                 stream);
  };
  const Enqueue runTheirs = [&] {
    return theirs.value()->enqueue(arena.input.floats(), arena.weight.floats(), arena.output.floats());
  };
  const Result<Errors> ourErrors = judged(oracle.value(), runOurs, arena, device, stream);
  if (!ourErrors.isOk()) return ourErrors.status();
  const Result<Errors> theirErrors = judged(oracle.value(), runTheirs, arena, device, stream);
  if (!theirErrors.isOk()) return theirErrors.status();
  const auto times = timeInTurns(runOurs, runTheirs, stream);
  if (!times.isOk()) return times.status();
  return CudnnComparison{{algorithm.name, times.value().first, workspace.value().bytes(), ourErrors.value().absolute,
                          ourErrors.value().relative},
                         {theirs.value()->algorithm(), times.value().second, theirs.value()->workspaceBytes(),
                          theirErrors.value().absolute, theirErrors.value().relative},
                         cudnn->version()};
}

}  // namespace

Result<CudnnComparison> compareWithCudnn(Queue& queue, const GpuAlgorithm& algorithm, const GpuRequest& request,
                                         const float* input, const float* weight,
                                         const std::vector<std::string>& libraries) {
  auto cudnn = Cudnn::load(libraries);
  if (!cudnn.isOk()) return cudnn.status();
  Result<Arena> arena = Arena::create(queue, request.problem, input, weight);
  if (!arena.isOk()) return arena.status();
  Result<DeviceMemory> ourWeight = uploaded(queue, weight, request.problem.weightSize());
  if (!ourWeight.isOk()) return ourWeight.status();
  if (Status status = queue.wait(); !status.isOk()) return status;

  Result<CudnnComparison> report = Status{StatusCode::internal, "the comparison did not run"};
  // The queue is held for the whole comparison, so that nobody else's kernels are timed.
  Status ran = queue.compute([&](cudaStream_t stream) {
    report = compareOn(stream, queue, algorithm, request, arena.value(), std::move(ourWeight.value()), cudnn.value());
    return toStatus(cudaStreamSynchronize(stream), "comparing with cuDNN");
  });
  if (!report.isOk() || ran.isOk()) return report;
  return ran;
}

}  // namespace warpconv::cuda
