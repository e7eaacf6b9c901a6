#include <cstdint>

#include "cuda/depthwise/arguments.h"
#include "cuda/depthwise/gpu_depthwise.h"
#include "cuda/depthwise/plan.h"
#include "cuda/host/cuda_status.h"
#include "cuda/host/gpu_weights.h"
#include "cuda/kernel/launch.cuh"

namespace warpconv::cuda {
namespace depthwise {
namespace {

class Depthwise final : public GpuConvolution {
 public:
  Depthwise(const GpuRequest& request, std::shared_ptr<const DeviceFilters> filters, const float* bias)
      : filters_(std::move(filters)) {
    const ConvProblem& problem = request.problem;
    const Plan plan = planDepthwise(request);
    const int64_t resident = int64_t{kTiles[plan.tile].resident} * request.traits.multiprocessors;
    kernel_ = kernelOf(plan.tile, problem.format.input.type);
    launch_.blocks = static_cast<unsigned>(plan.blocks);
    launch_.threads = kThreads;
    launch_.overlaps = shouldOverlap(request.traits.computeCapability, plan.blocks, resident);
    Arguments& x = arguments_;
    x = argumentsOf(problem, plan);
    x.filter = filters_->floats();
    x.bias = bias;
    x.activation = request.activation;
  }

  Status enqueue(const GpuTensors& tensors, void*, cudaStream_t stream) const override {
    for (const void* const tensor : {tensors.input, tensors.residual, static_cast<const void*>(tensors.output)}) {
      if (reinterpret_cast<uintptr_t>(tensor) % kWordBytes != 0) {
        return invalidArgument("depthwise takes tensors that begin on a multiple of 4 bytes");
      }
    }
    Arguments x = arguments_;
    x.input = tensors.input;
    x.residual = tensors.residual;
    x.output = tensors.output;
    return toStatus(launchKernel(kernel_, launch_, stream, x), "depthwise");
  }

 private:
  const std::shared_ptr<const DeviceFilters> filters_;
  Kernel kernel_;
  Launch launch_{};
  Arguments arguments_{};
};

}  // namespace
}  // namespace depthwise

Result<std::unique_ptr<GpuConvolution>> prepareDepthwise(const GpuRequest& request, const GpuWeights& weights) {
  const FilterForm form = formsDepthwise(request, weights.filters).front();
  const Shape shape = shapeOf(request.problem);
  auto filters = filtersIn(form, weights, request.problem, "ordering the filters for depthwise",
                           [&](const float* given, void* ordered, cudaStream_t stream) {
                             return depthwise::launchFilterOrder(shape, given, static_cast<float*>(ordered), stream);
                           });
  if (!filters.isOk()) return filters.status();
  return std::unique_ptr<GpuConvolution>(
      std::make_unique<depthwise::Depthwise>(request, std::move(filters.value()), weights.bias));
}

}  // namespace warpconv::cuda
