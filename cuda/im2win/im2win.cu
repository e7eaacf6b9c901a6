#include <cuda_runtime_api.h>

#include <utility>

#include "cuda/host/cuda_status.h"
#include "cuda/host/gpu_weights.h"
#include "cuda/im2win/gemm.h"
#include "cuda/im2win/im2win.h"
#include "cuda/im2win/kernels.h"
#include "cuda/im2win/plan.h"
#include "cuda/kernel/launch.cuh"
#include "cuda/tensor_core/window_filter_order.h"
#include "cuda/tensor_core/window_filters.h"

namespace warpconv::cuda {
namespace im2win {
namespace {

template <size_t... kIndices>
GemmKernel kernelOf(int tile, std::index_sequence<kIndices...>) {
  GemmKernel (*const kernels[])() = {gemmKernel<static_cast<int>(kIndices)>...};
  return kernels[tile]();
}

class Im2win final : public GpuConvolution {
 public:
  Im2win(const GpuRequest& request, const float* bias)
      : shape_(shapeOf(request.problem)),
        paddedWidth_(static_cast<int>(paddedWidth(request.problem))),
        plan_(planIm2win(request)),
        workspace_(workspaceOf(request.problem, plan_)),
        activation_(request.activation),
        computeCapability_(request.traits.computeCapability),
        bias_(bias),
        filterPitch_(static_cast<int>(windowFilterPitch(request.problem))),
        steps_(static_cast<int>(stepsOf(request.problem, plan_))),
        kernel_(kernelOf(plan_.tile, std::make_index_sequence<kTileCount>())),
        blocksHeld_(int64_t{tile().blocksPerMultiprocessor} * request.traits.multiprocessors),
        launch_{0, static_cast<unsigned>(tile().launchThreads()), 4 * tile().sharedFloats()} {}

  Status prepare(const ConvProblem& problem, const GpuWeights& weights) {
    auto filter = filtersIn(formOf(problem, plan_), weights, problem, "ordering the filters for im2win",
                            [&](const float* given, void* ordered, cudaStream_t stream) {
                              launchWindowFilterOrder(shape_, filterPitch_, steps_, takesRoundedFilters(plan_), given,
                                                      static_cast<float*>(ordered), stream);
                              return cudaGetLastError();
                            });
    if (!filter.isOk()) return filter.status();
    filter_ = std::move(filter.value());
    // Of the tiles after the last one, whose steps are read ahead.
    const int length = steps_ + tile().loaderTurns * tile().blockK;
    auto order = readsInput()
                     ? weights.tables.of(inputOrderKey(shape_, length), [&] { return inputOrder(shape_, length); })
                     : weights.tables.of(tensorOrderKey(shape_, paddedWidth_, length),
                                         [&] { return tensorOrder(shape_, paddedWidth_, length); });
    if (!order.isOk()) return order.status();
    order_ = std::move(order.value());

    setArguments();
    return toStatus(cudaFuncSetAttribute(kernel_, cudaFuncAttributeMaxDynamicSharedMemorySize, launch_.sharedBytes),
                    "setting up an im2win kernel");
  }

  Status enqueue(const GpuTensors& given, void* workspace, cudaStream_t stream) const override {
    const FloatTensors tensors = floatsOf(given);
    const Epilogue epilogue{bias_, tensors.residual, activation_};
    const float* windows = tensors.input;
    if (!readsInput()) {
      launchTransform(shape_, paddedWidth_, tensors.input, static_cast<float*>(workspace), stream);
      if (Status status = launchStatus("the im2win transform"); !status.isOk()) return status;
      windows = static_cast<const float*>(workspace);
    }
    if (plan_.source == Source::tensorBasic) {
      launchBasic(shape_, paddedWidth_, filterPitch_, steps_, windows, filter_->floats(), tensors.output, epilogue,
                  stream);
      return launchStatus("im2win");
    }
    return enqueueGemm(windows, tensors, epilogue, static_cast<char*>(workspace) + workspace_.tensorBytes, stream);
  }

 private:
  const GemmTile& tile() const { return kTiles[plan_.tile].tile; }
  bool readsInput() const { return plan_.source == Source::input; }

  Status enqueueGemm(const float* windows, const FloatTensors& tensors, const Epilogue& epilogue, void* sums,
                     cudaStream_t stream) const {
    const bool sumFollows = plan_.splits > 1 && !plan_.clustered;
    GemmArguments x = arguments_;
    x.windows = windows;
    x.quadOutputs = x.mapSize % 4 == 0 && isQuadAligned(tensors.output) && isQuadAligned(tensors.residual);
    x.output = sumFollows ? static_cast<float*>(sums) : tensors.output;
    x.epilogue = sumFollows ? Epilogue{} : epilogue;
    x.sumFollows = sumFollows;
    const Status launched = toStatus(launchKernel(kernel_, launch_, stream, x), "im2win");
    if (!launched.isOk() || !sumFollows) return launched;
    return toStatus(launchSplitSum(shape_, plan_.splits, x.output, tensors.output, epilogue, x.quadOutputs,
                                   computeCapability_ >= 90, stream),
                    "the sum of im2win's splits");
  }

  /** What does not depend on the call. */
  void setArguments() {
    const Shape& s = shape_;
    GemmArguments& x = arguments_;
    x.layout = readsInput() ? inputLayout(s) : tensorLayout(s, paddedWidth_);
    x.order = static_cast<const WindowStep*>(order_->data());
    x.filter = filter_->floats();
    x.filterPitch = filterPitch_;
    x.filterGroupStride = filterPitch_ * steps_;
    x.splitStride = int64_t{s.n} * s.k * s.p * s.q;
    x.h = s.h, x.w = s.w;
    x.strideH = s.strideH, x.strideW = s.strideW;
    x.dilationH = s.dilationH, x.dilationW = s.dilationW;
    x.padTop = s.padTop, x.padLeft = s.padLeft;
    x.outputs = s.k, x.groupOutputs = s.groupOutputs;
    x.windowCount = s.n * s.p * s.q, x.mapSize = s.p * s.q;
    x.byMap = FastDivisor(x.mapSize), x.byRow = FastDivisor(s.q);
    x.cluster = plan_.clustered ? plan_.splits : 1;
    x.byCluster = FastDivisor(x.cluster);
    x.bySplits = FastDivisor(plan_.splits / x.cluster);
    x.tiles = steps_ / tile().blockK;
    x.tilesPerSplit = static_cast<int>(ceilDivide(x.tiles, plan_.splits));
    const int64_t tilesM = ceilDivide(x.groupOutputs, tile().blockM);
    const int64_t tilesN = ceilDivide(x.windowCount, tile().blockN);
    x.byTilesM = FastDivisor(static_cast<int>(tilesM));
    x.byTilesN = FastDivisor(static_cast<int>(tilesN));
    launch_.blocks = static_cast<unsigned>(tilesM * tilesN * plan_.splits * s.groups);
    launch_.cluster = static_cast<unsigned>(x.cluster);
    // Before a kernel that sums splits it gained nothing and made times irregular.
    launch_.overlaps = readsInput() && (plan_.splits == 1 || plan_.clustered) &&
                       shouldOverlap(computeCapability_, launch_.blocks, blocksHeld_);
  }

  const Shape shape_;
  const int paddedWidth_;
  const Plan plan_;
  const Workspace workspace_;
  const Activation activation_;
  const int computeCapability_;
  const float* const bias_;
  /** Output channels of a group, padded; and steps of its reduction, padded */
  const int filterPitch_, steps_;
  const GemmKernel kernel_;
  const int64_t blocksHeld_;
  Launch launch_;
  std::shared_ptr<const DeviceFilters> filter_;
  std::shared_ptr<const DeviceMemory> order_;
  GemmArguments arguments_{};
};

}  // namespace
}  // namespace im2win

Result<std::unique_ptr<GpuConvolution>> prepareIm2win(const GpuRequest& request, const GpuWeights& weights) {
  auto made = std::make_unique<im2win::Im2win>(request, weights.bias);
  if (Status status = made->prepare(request.problem, weights); !status.isOk()) return status;
  return std::unique_ptr<GpuConvolution>(std::move(made));
}

}  // namespace warpconv::cuda
