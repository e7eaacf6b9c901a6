#include "cuda/compare/tensors.h"

#include <utility>

#include "cuda/formats/convert.h"

namespace warpconv::cuda {

Result<ContestTensors> ContestTensors::allocate(const ConvProblem& x, const TensorFormat& format, Device& device) {
  ContestTensors tensors{format, {}, {}, {}};
  const std::pair<DeviceMemory*, int64_t> sizes[] = {
      {&tensors.input, x.inputSize()}, {&tensors.weight, x.weightSize()}, {&tensors.output, x.outputSize()}};
  for (const auto& [memory, count] : sizes) {
    Result<DeviceMemory> made = device.allocate(count * widthOf(format.type));
    if (!made.isOk()) return made.status();
    *memory = std::move(made.value());
  }
  return Result<ContestTensors>(std::move(tensors));
}

FloatType typeFor(Precision precision) {
  switch (precision) {
    case Precision::fp32:
    case Precision::tf32: return FloatType::float32;
    case Precision::fp16: return FloatType::float16;
    case Precision::bf16: return FloatType::bfloat16;
  }
  return FloatType::float32;
}

Status convertOperands(const ConvProblem& x, const ContestTensors& plain, const ContestTensors& to,
                       cudaStream_t stream) {
  Status status =
      convertFormat({x.n, x.c, x.h * x.w}, plain.format, plain.input.data(), to.format, to.input.data(), stream);
  if (!status.isOk()) return status;
  return convertFormat({x.k, x.groupInputs(), x.r * x.s}, plain.format, plain.weight.data(), to.format,
                       to.weight.data(), stream);
}

Status convertOutput(const ConvProblem& x, const ContestTensors& from, const ContestTensors& plain,
                     cudaStream_t stream) {
  return convertFormat({x.n, x.k, x.p * x.q}, from.format, from.output.data(), plain.format, plain.output.data(),
                       stream);
}

}  // namespace warpconv::cuda
