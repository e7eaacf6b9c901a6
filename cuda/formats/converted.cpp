#include "cuda/formats/converted.h"

#include <utility>

namespace warpconv::cuda {
namespace {

void* placeOf(const Conversion& conversion, void* workspace) {
  return static_cast<char*>(workspace) + conversion.offset;
}

/** The operand as it is computed with, to be read once the stream has got there. */
Status convertOperand(const Conversion& conversion, const void*& operand, void* workspace, cudaStream_t stream) {
  if (operand == nullptr || !conversion.isNeeded()) return {};
  void* const place = placeOf(conversion, workspace);
  const Status status =
      convertFormat(conversion.extents, conversion.asked, operand, conversion.computed, place, stream);
  operand = place;
  return status;
}

class Converted final : public GpuConvolution {
 public:
  Converted(const Conversions& conversions, std::unique_ptr<GpuConvolution> computed)
      : conversions_(conversions), computed_(std::move(computed)) {}

  Status enqueue(const GpuTensors& tensors, void* workspace, cudaStream_t stream) const override {
    return enqueueConverted(conversions_, tensors, workspace, stream, [&](const GpuTensors& converted, void* own) {
      return computed_->enqueue(converted, own, stream);
    });
  }

  Status load(bool withResidual) const override { return computed_->load(withResidual); }

 private:
  const Conversions conversions_;
  const std::unique_ptr<GpuConvolution> computed_;
};

}  // namespace

Result<std::unique_ptr<GpuConvolution>> prepareConverted(const GpuAlgorithm& algorithm, const GpuRequest& request,
                                                         const GpuWeights& weights) {
  const GpuRequest computed = computedRequest(algorithm, request);
  Result<std::unique_ptr<GpuConvolution>> made = algorithm.prepare(computed, weights);
  const Conversions conversions = conversionsTo(computed.problem.format, request.problem);
  if (!made.isOk() || !conversions.areNeeded()) return made;
  return std::unique_ptr<GpuConvolution>(std::make_unique<Converted>(conversions, std::move(made.value())));
}

Status enqueueConverted(const Conversions& conversions, const GpuTensors& tensors, void* workspace, cudaStream_t stream,
                        const ComputeConverted& compute) {
  GpuTensors converted = tensors;
  Status status = convertOperand(conversions.input, converted.input, workspace, stream);
  if (status.isOk()) status = convertOperand(conversions.residual, converted.residual, workspace, stream);
  if (!status.isOk()) return status;
  const Conversion& output = conversions.output;
  if (output.isNeeded()) converted.output = placeOf(output, workspace);
  status = compute(converted, static_cast<char*>(workspace) + conversions.bytes);
  if (!status.isOk() || !output.isNeeded()) return status;
  return convertFormat(output.extents, output.computed, converted.output, output.asked, tensors.output, stream);
}

}  // namespace warpconv::cuda
