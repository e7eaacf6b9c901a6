#include "cuda/host/resident.h"

#include "cuda/formats/converted.h"

namespace warpconv::cuda {
namespace {

/** Of an operand that is resident: all memory of a GPU is made by its engine. */
const DeviceMemory& memoryOf(const Operand& operand) {
  return static_cast<const ResidentMemory&>(*operand.resident).memory();
}

/** A copy on the device. Kernels enqueued later see it. */
Result<DeviceMemory> uploaded(Queue& queue, const void* from, int64_t bytes) {
  Result<DeviceMemory> memory = queue.device().allocate(bytes);
  if (!memory.isOk()) return memory;
  if (Status status = queue.upload(from, memory.value()); !status.isOk()) return status;
  return memory;
}

}  // namespace

Result<PlacedConvolution> placeConvolution(const GpuAlgorithm& algorithm, const GpuRequest& request,
                                           const GpuWeights& weights) {
  const bool isSafe = !mustSkipPadding(request.problem, weights.filters);
  const GpuAlgorithm& safe = isSafe ? algorithm : gpuAlgorithms().back();
  Result<std::unique_ptr<GpuConvolution>> convolution = prepareConverted(safe, request, weights);
  if (!convolution.isOk()) return convolution.status();
  return PlacedConvolution{std::move(convolution.value()), estimateOf(safe, request).workspaceBytes};
}

Result<std::shared_ptr<const ResidentConvolution>> ResidentConvolution::prepare(std::shared_ptr<Queue> queue,
                                                                                const GpuAlgorithm& algorithm,
                                                                                const GpuRequest& request,
                                                                                const float* weight,
                                                                                const float* bias) {
  const std::shared_ptr<ResidentConvolution> made(new ResidentConvolution(queue, request.problem));
  if (Status status = made->place(algorithm, request, weight, bias); !status.isOk()) return status;
  return std::shared_ptr<const ResidentConvolution>(made);
}

Status ResidentConvolution::place(const GpuAlgorithm& algorithm, const GpuRequest& request, const float* weight,
                                  const float* bias) {
  if (Status status = queue_->device().makeCurrent(); !status.isOk()) return status;
  Weights filters(weight, problem_.k, problem_.filterSize());
  Tables tables(*queue_);
  if (bias != nullptr) {
    Result<DeviceMemory> biases = queue_->device().allocate(floatBytes(problem_.k));
    if (!biases.isOk()) return biases.status();
    bias_ = std::move(biases.value());
    if (Status status = queue_->uploadAll(bias, bias_); !status.isOk()) return status;
  }
  Result<PlacedConvolution> placed =
      placeConvolution(algorithm, request, {filters, bias_.floats(), *queue_, tables});
  if (!placed.isOk()) return placed.status();
  convolution_ = std::move(placed.value().convolution);
  weightBytes_ = filters.bytes() + tables.bytes();
  Result<DeviceMemory> workspace = queue_->device().allocate(placed.value().workspaceBytes);
  if (!workspace.isOk()) return workspace.status();
  workspace_ = std::move(workspace.value());
  return {};
}

Status ResidentConvolution::enqueue(const Operands& operands) const {
  const auto data = [](const Operand& operand) {
    return operand.resident == nullptr ? nullptr : memoryOf(operand).data();
  };
  const GpuTensors tensors{data(operands.input), data(operands.residual), data(operands.output)};
  return queue_->compute(
      [&](cudaStream_t stream) { return convolution_->enqueue(tensors, workspace_.data(), stream); });
}

Status ResidentConvolution::enqueue(const Operands& operands, std::function<void(Status)> done) const {
  if (Status status = enqueue(operands); !status.isOk()) return status;
  const Status status = queue_->whenDone(std::move(done));
  // Nobody will be told when the operands may go.
  if (!status.isOk()) (void)queue_->wait();
  return status;
}

Status ResidentConvolution::run(const Operands& operands, const Cancellation* cancellation) const {
  Operands resident = operands;
  Status status = runCopied(operands, resident, cancellation);
  // Copies and kernels may still be using what `resident` is about to let go.
  if (!status.isOk()) (void)queue_->wait();
  return status;
}

Status ResidentConvolution::runCopied(const Operands& operands, Operands& resident,
                                      const Cancellation* cancellation) const {
  const auto keep = [&](DeviceMemory memory) {
    return Operand{nullptr, std::make_shared<const ResidentMemory>(std::move(memory), queue_->device().index())};
  };
  const auto bring = [&](const Operand& from, Operand& to, int64_t bytes) {
    if (from.host == nullptr) return Status{};
    Result<DeviceMemory> memory = uploaded(*queue_, from.host, bytes);
    if (!memory.isOk()) return memory.status();
    to = keep(std::move(memory.value()));
    return Status{};
  };
  if (Status status = bring(operands.input, resident.input, problem_.inputBytes()); !status.isOk()) return status;
  if (Status status = bring(operands.residual, resident.residual, problem_.residualBytes()); !status.isOk())
    return status;
  if (operands.output.host != nullptr) {
    Result<DeviceMemory> memory = queue_->device().allocate(problem_.outputBytes());
    if (!memory.isOk()) return memory.status();
    resident.output = keep(std::move(memory.value()));
  }
  if (cancellation != nullptr && cancellation->isRequested()) return stoppedWhileRunning();
  if (Status status = enqueue(resident); !status.isOk()) return status;
  if (operands.output.host == nullptr) return queue_->wait();
  return queue_->download(memoryOf(resident.output), operands.output.host);
}

}  // namespace warpconv::cuda
