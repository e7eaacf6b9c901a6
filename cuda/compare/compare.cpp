#include "cuda/compare/compare.h"

#include <cuda_runtime_api.h>

#include <utility>

#include "cuda/compare/cudnn.h"
#include "cuda/compare/oracle.h"
#include "cuda/compare/timing.h"
#include "cuda/cuda_status.h"

namespace warpconv::cuda {
namespace {

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
  const std::vector<Result<Timing>> timings = timeInTurns({runOurs, runTheirs}, {}, device, stream);
  for (const Result<Timing>& timing : timings) {
    if (!timing.isOk()) return timing.status();
  }
  return CudnnComparison{{algorithm.name, timings[0].value().warm.median, workspace.value().bytes(),
                          ourErrors.value().absolute, ourErrors.value().relative},
                         {theirs.value()->algorithm(), timings[1].value().warm.median, theirs.value()->workspaceBytes(),
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
