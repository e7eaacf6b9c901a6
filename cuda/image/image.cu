#include "cuda/host/cuda_status.h"
#include "cuda/host/gpu_weights.h"
#include "cuda/image/filter_order.h"
#include "cuda/image/image.h"
#include "cuda/image/plan.h"
#include "cuda/kernel/launch.cuh"

namespace warpconv::cuda {
namespace image {
namespace {

class Image final : public GpuConvolution {
 public:
  Image(const GpuRequest& request, const Arguments& arguments, std::shared_ptr<const DeviceFilters> filters,
        const float* bias)
      : filters_(std::move(filters)), arguments_(arguments) {
    const Plan plan = planImage(request);
    kernel_ = kernelOf(plan.tile, request.problem.format.output.type);
    launch_ = {static_cast<unsigned>(plan.blocks), kThreads, plan.sharedBytes};
    const int64_t resident = int64_t{residentOf(kTiles[plan.tile])} * request.traits.multiprocessors;
    launch_.overlaps = shouldOverlap(request.traits.computeCapability, plan.blocks, resident);
    arguments_.filters = filters_->memory->data();
    arguments_.bias = bias;
    arguments_.activation = request.activation;
  }

  Status enqueue(const GpuTensors& tensors, void*, cudaStream_t stream) const override {
    for (const void* const tensor : {tensors.residual, static_cast<const void*>(tensors.output)}) {
      if (reinterpret_cast<uintptr_t>(tensor) % kPieceBytes != 0) {
        return invalidArgument("image takes tensors that begin on a multiple of 16 bytes");
      }
    }
    Arguments x = arguments_;
    x.input = static_cast<const float*>(tensors.input);
    x.residual = tensors.residual;
    x.output = tensors.output;
    return toStatus(launchKernel(kernel_, launch_, stream, x), "image");
  }

 private:
  static constexpr uintptr_t kPieceBytes = 16;

  const std::shared_ptr<const DeviceFilters> filters_;
  Kernel kernel_;
  Launch launch_{};
  Arguments arguments_;
};

}  // namespace
}  // namespace image

Result<std::unique_ptr<GpuConvolution>> prepareImage(const GpuRequest& request, const GpuWeights& weights) {
  const ConvProblem& problem = request.problem;
  const image::Arguments arguments = image::argumentsOf(problem);
  const auto order = [&](const float* given, void* ordered, cudaStream_t stream) {
    return image::launchFilterOrder(arguments, problem.format.output.type, given, ordered, stream);
  };
  auto filters = filtersIn(image::formOf(problem), weights, problem, "ordering the filters for image", order);
  if (!filters.isOk()) return filters.status();
  return std::unique_ptr<GpuConvolution>(
      std::make_unique<image::Image>(request, arguments, std::move(filters.value()), weights.bias));
}

}  // namespace warpconv::cuda
