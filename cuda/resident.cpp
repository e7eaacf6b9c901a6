#include "cuda/resident.h"

namespace warpconv::cuda {
namespace {

int64_t floatBytes(int64_t count) { return count * static_cast<int64_t>(sizeof(float)); }

/** What computes it: the algorithm, or the direct one, the last of the list: it alone leaves padded elements out. */
const GpuAlgorithm& safeAlgorithm(const GpuAlgorithm& algorithm, const ConvProblem& problem, const float* weight) {
  return mustSkipPadding(problem, weight) ? gpuAlgorithms().back() : algorithm;
}

/** Of an operand that is resident: all memory of a GPU is made by its engine. */
const DeviceMemory& memoryOf(const Operand& operand) {
  return static_cast<const ResidentMemory&>(*operand.resident).memory();
}

/** A copy of `count` floats on the device; empty for null. */
Result<DeviceMemory> uploaded(Queue& queue, const float* from, int64_t count) {
  return copyToDevice(queue, from, from == nullptr ? 0 : floatBytes(count));
}

}  // namespace

Result<DeviceMemory> copyToDevice(Queue& queue, const void* from, int64_t bytes) {
  Result<DeviceMemory> memory = queue.device().allocate(bytes);
  if (!memory.isOk() || bytes == 0) return memory;
  if (Status status = queue.upload(from, memory.value()); !status.isOk()) return status;
  return memory;
}

Result<PlacedConvolution> placeConvolution(Queue& queue, const GpuAlgorithm& algorithm, const GpuRequest& request,
                                           const float* weight, const float* bias) {
  const ConvProblem& x = request.problem;
  Result<DeviceMemory> weights = uploaded(queue, weight, x.weightSize());
  if (!weights.isOk()) return weights.status();
  Result<DeviceMemory> biases = uploaded(queue, bias, x.k);
  // Nor may the weights go as they are copied.
  const Status waited = queue.wait();
  if (!biases.isOk()) return biases.status();
  if (!waited.isOk()) return waited;

  const GpuAlgorithm& safe = safeAlgorithm(algorithm, x, weight);
  Result<std::unique_ptr<GpuConvolution>> convolution =
      safe.prepare(request, {std::move(weights.value()), std::move(biases.value())}, queue.device());
  if (!convolution.isOk()) return convolution.status();
  const int64_t workspaceBytes = &safe == &algorithm ? algorithm.estimate(request).workspaceBytes : 0;
  return PlacedConvolution{std::move(convolution.value()), workspaceBytes};
}

Result<std::shared_ptr<const ResidentConvolution>> ResidentConvolution::prepare(std::shared_ptr<Queue> queue,
                                                                                const GpuAlgorithm& algorithm,
                                                                                const GpuRequest& request,
                                                                                const float* weight,
                                                                                const float* bias) {
  Result<PlacedConvolution> placed = placeConvolution(*queue, algorithm, request, weight, bias);
  if (!placed.isOk()) return placed.status();
  Result<DeviceMemory> workspace = queue->device().allocate(placed.value().workspaceBytes);
  if (!workspace.isOk()) return workspace.status();
  return std::shared_ptr<const ResidentConvolution>(new ResidentConvolution(
      std::move(queue), request.problem, std::move(placed.value().convolution), std::move(workspace.value())));
}

Status ResidentConvolution::enqueue(const Operands& operands) const {
  const auto floats = [](const Operand& operand) {
    return operand.resident == nullptr ? nullptr : memoryOf(operand).floats();
  };
  const GpuTensors tensors{floats(operands.input), floats(operands.residual), floats(operands.output)};
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
  const auto bring = [&](const Operand& from, Operand& to, int64_t count) {
    if (from.host == nullptr) return Status{};
    Result<DeviceMemory> memory = uploaded(*queue_, from.host, count);
    if (!memory.isOk()) return memory.status();
    to = keep(std::move(memory.value()));
    return Status{};
  };
  if (Status status = bring(operands.input, resident.input, problem_.inputSize()); !status.isOk()) return status;
  if (Status status = bring(operands.residual, resident.residual, problem_.outputSize()); !status.isOk()) return status;
  if (operands.output.host != nullptr) {
    Result<DeviceMemory> memory = queue_->device().allocate(floatBytes(problem_.outputSize()));
    if (!memory.isOk()) return memory.status();
    resident.output = keep(std::move(memory.value()));
  }
  if (cancellation != nullptr && cancellation->isRequested()) return stoppedWhileRunning();
  if (Status status = enqueue(resident); !status.isOk()) return status;
  if (operands.output.host == nullptr) return queue_->wait();
  return queue_->download(memoryOf(resident.output), operands.output.host);
}

}  // namespace warpconv::cuda
