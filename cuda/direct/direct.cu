#include <algorithm>

#include "cuda/direct/direct.h"
#include "cuda/epilogue/epilogue.cuh"
#include "cuda/host/cuda_status.h"
#include "cuda/host/gpu_weights.h"

namespace warpconv::cuda {
namespace {

constexpr int kDirectThreads = 256;

/**
 * Thread i of the grid owns outputs i, i + gridDim * kDirectThreads, … of the NCHW output, in 64-bit arithmetic:
 * i = ((n * K + k) * P + p) * Q + q. Neighbouring threads have neighbouring q, so that their loads join.
 */
__global__ void __launch_bounds__(kDirectThreads)
    directKernel(ConvProblem x, FloatTensors tensors, const float* weight, Epilogue epilogue) {
  const int64_t outputs = x.n * x.k * x.p * x.q;
  const int64_t groupInputs = x.c / x.groups;
  const int64_t groupOutputs = x.k / x.groups;
  for (int64_t i = blockIdx.x * int64_t{kDirectThreads} + threadIdx.x; i < outputs;
       i += gridDim.x * int64_t{kDirectThreads}) {
    const int64_t q = i % x.q;
    const int64_t p = i / x.q % x.p;
    const int64_t k = i / (x.q * x.p) % x.k;
    const int64_t n = i / (x.q * x.p * x.k);
    const float* maps = tensors.input + (n * x.c + k / groupOutputs * groupInputs) * x.h * x.w;
    const float* filter = weight + k * groupInputs * x.r * x.s;
    float sum = 0.0f;
    for (int64_t c = 0; c < groupInputs; ++c) {
      for (int64_t r = 0; r < x.r; ++r) {
        const int64_t h = p * x.stride.h + r * x.dilation.h - x.padding.top;
        if (h < 0 || h >= x.h) continue;
        for (int64_t s = 0; s < x.s; ++s) {
          const int64_t w = q * x.stride.w + s * x.dilation.w - x.padding.left;
          if (w < 0 || w >= x.w) continue;
          sum = fmaf(maps[(c * x.h + h) * x.w + w], filter[(c * x.r + r) * x.s + s], sum);
        }
      }
    }
    tensors.output[i] = finish(epilogue, sum, k, i);
  }
}

class Direct final : public GpuConvolution {
 public:
  Direct(const GpuRequest& request, std::shared_ptr<const DeviceFilters> filters, const float* bias)
      : problem_(request.problem), activation_(request.activation), filters_(std::move(filters)), bias_(bias) {}

  Status enqueue(const GpuTensors& tensors, void*, cudaStream_t stream) const override {
    return launchDirect(problem_, activation_, floatsOf(tensors), filters_->floats(), bias_, stream);
  }

 private:
  const ConvProblem problem_;
  const Activation activation_;
  const std::shared_ptr<const DeviceFilters> filters_;
  const float* const bias_;
};

}  // namespace

Status launchDirect(const ConvProblem& problem, const Activation& activation, const FloatTensors& tensors,
                    const float* weight, const float* bias, cudaStream_t stream) {
  constexpr int64_t kMostBlocks = int64_t{1} << 20;
  const int64_t blocks = (problem.outputSize() + kDirectThreads - 1) / kDirectThreads;
  directKernel<<<static_cast<unsigned>(std::min(blocks, kMostBlocks)), kDirectThreads, 0, stream>>>(
      problem, tensors, weight, Epilogue{bias, tensors.residual, activation});
  return launchStatus("direct");
}

Result<std::unique_ptr<GpuConvolution>> prepareDirect(const GpuRequest& request, const GpuWeights& weights) {
  auto filters = givenFilters(weights, request.problem);
  if (!filters.isOk()) return filters.status();
  return std::unique_ptr<GpuConvolution>(std::make_unique<Direct>(request, std::move(filters.value()), weights.bias));
}

}  // namespace warpconv::cuda
