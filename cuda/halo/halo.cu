#include <cuda_runtime_api.h>

#include <algorithm>

#include "cuda/halo/arguments.h"
#include "cuda/halo/halo.h"
#include "cuda/halo/plan.h"
#include "cuda/host/cuda_status.h"
#include "cuda/kernel/launch.cuh"
#include "cuda/kernel/lazy_kernel.h"
#include "cuda/tensor_core/split_filters.h"

namespace warpconv::cuda {
namespace halo {
namespace {

class Halo final : public GpuConvolution {
 public:
  Halo(const GpuRequest& request, const Plan& plan, const float* bias) : activation_(request.activation), bias_(bias) {
    const ConvProblem& problem = request.problem;
    const Grid grid = makeGrid(problem, plan.layout);
    const HaloTile& tile = kTiles[plan.tile].tile;
    const bool isFolded = plan.layout.fold.h * plan.layout.fold.w > 1;
    const auto mostBytes = static_cast<int>(mostSharedBytes(request.traits, tile));
    // As much as any plan of this kernel takes: a limit of this plan's own would be too low for others.
    general_.set(kernelOf(plan.tile, {false, plan.cluster}), mostBytes);
    bounded_.set(kernelOf(plan.tile, {!isFolded, plan.cluster}), mostBytes);
    setArguments(problem, grid, plan);
    filterWords_ = filterWords(problem, tile, grid);
    launch_.blocks = static_cast<unsigned>(tilesM(problem, tile) * tilesN(grid, tile) * problem.groups * plan.cluster);
    launch_.threads = static_cast<unsigned>(tile.launchThreads());
    launch_.sharedBytes = static_cast<int>(sharedBytes(tile, grid, plan.stages, plan.slots));
    launch_.cluster = static_cast<unsigned>(plan.cluster);
    launch_.overlaps =
        shouldOverlap(request.traits.computeCapability, launch_.blocks, tile.held * request.traits.multiprocessors);
  }

  Status prepare(const FilterForm& form, const ConvProblem& problem, const GpuWeights& weights) {
    const auto order = [&](const float* given, uint32_t* words, float* inverses, cudaStream_t stream) {
      launchFilterOrder(arguments_, given, words, inverses, stream);
    };
    Status status = filters_.bring(form, problem, weights, "ordering the filters for halo", filterWords_, order);
    if (status.isOk()) filters_.giveTo(arguments_);
    return status;
  }

  Status load(bool withResidual) const override {
    return toStatus(kernelFor(!withResidual && isClamp(activation_)).load(), "setting up a halo kernel");
  }

  Status enqueue(const GpuTensors& given, void*, cudaStream_t stream) const override {
    const FloatTensors tensors = floatsOf(given);
    Arguments x = arguments_;
    x.input = tensors.input;
    x.output = tensors.output;
    x.epilogue = {bias_, tensors.residual, activation_};
    const LazyKernel<Kernel>& kernel = kernelFor(isBounded(x.epilogue));
    const cudaError_t loaded = kernel.load();
    return toStatus(loaded == cudaSuccess ? launchKernel(kernel.get(), launch_, stream, x) : loaded, "halo");
  }

 private:
  const LazyKernel<Kernel>& kernelFor(bool isBounded) const { return isBounded ? bounded_ : general_; }

  /** What does not depend on the call. */
  void setArguments(const ConvProblem& problem, const Grid& grid, const Plan& plan) {
    const HaloTile& tile = kTiles[plan.tile].tile;
    Arguments& x = arguments_;
    x.shape = shapeOf(problem);
    setGrid(grid, tile);
    setTaps(grid);
    setChannels(problem, grid);
    x.chunks = static_cast<int>(chunksOf(problem, grid));
    x.chunksPerBlock = (x.chunks + plan.cluster - 1) / plan.cluster;
    x.stages = plan.stages;
    x.slots = plan.slots;
    x.outputBlocks = static_cast<int>(outputBlocksOf(problem, tile));
    x.cluster = plan.cluster;
    x.byCluster = FastDivisor(plan.cluster);
    x.byTilesM = FastDivisor(static_cast<int>(tilesM(problem, tile)));
    x.byTilesN = FastDivisor(static_cast<int>(tilesN(grid, tile)));
  }

  void setGrid(const Grid& grid, const HaloTile& tile) {
    Arguments& x = arguments_;
    x.positions = static_cast<int>(grid.positions);
    x.patch = static_cast<int>(patchOf(tile, grid));
    x.parts = static_cast<int>(grid.parts());
    x.phases = static_cast<int>(grid.phases() / grid.parts());
    x.byImage = FastDivisor(static_cast<int>(grid.rows.pitch * grid.columns.pitch));
    x.byRow = FastDivisor(static_cast<int>(grid.columns.pitch));
    x.byPatch = FastDivisor(x.patch);
    x.byColumnPhases = FastDivisor(static_cast<int>(grid.columns.phases));
  }

  void setTaps(const Grid& grid) {
    Arguments& x = arguments_;
    const TapOrder& order = grid.order;
    for (size_t i = 0; i < order.taps.size(); ++i) {
      x.tapIndex[i] = order.taps[i];
      if (order.taps[i] == kNoTap) continue;
      const Tap& tap = grid.taps[order.taps[i]];
      x.taps[i] = static_cast<uint16_t>((x.parts == 1 ? tap.phase * x.patch : 0) + tap.shift);
    }
    std::copy(order.ends.begin(), order.ends.end(), x.partEnds);
    x.groups = static_cast<int>(grid.groups());
  }

  void setChannels(const ConvProblem& problem, const Grid& grid) {
    Arguments& x = arguments_;
    x.channels = static_cast<int>(foldedChannels(problem, grid));
    x.foldRows = static_cast<int>(grid.layout.fold.h);
    x.foldColumns = static_cast<int>(grid.layout.fold.w);
    if (x.foldRows * x.foldColumns == 1) return;
    for (int i = 0; i < kMostFolded; ++i) x.folded[i] = foldedChannel(x, i);
  }

  const Activation activation_;
  const float* const bias_;
  SplitFilters filters_;
  int64_t filterWords_ = 0;
  /** For what isBounded, and for all else */
  LazyKernel<Kernel> bounded_, general_;
  Launch launch_{};
  Arguments arguments_{};
};

}  // namespace
}  // namespace halo

Result<std::unique_ptr<GpuConvolution>> prepareHalo(const GpuRequest& request, const GpuWeights& weights) {
  const halo::Plan plan = halo::planHalo(request);
  auto made = std::make_unique<halo::Halo>(request, plan, weights.bias);
  const FilterForm form = halo::formOf(request.problem, plan);
  if (Status status = made->prepare(form, request.problem, weights); !status.isOk()) return status;
  return std::unique_ptr<GpuConvolution>(std::move(made));
}

}  // namespace warpconv::cuda
