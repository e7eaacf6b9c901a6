#include <cuda_runtime_api.h>

#include <algorithm>

#include "cuda/cuda_status.h"
#include "cuda/halo/arguments.h"
#include "cuda/halo/halo.h"
#include "cuda/halo/plan.h"
#include "cuda/launch.cuh"
#include "cuda/own_stream.h"

namespace warpconv::cuda {
namespace halo {
namespace {

class Halo final : public GpuConvolution {
 public:
  Halo(const GpuRequest& request, DeviceMemory bias) : activation_(request.activation), bias_(std::move(bias)) {
    const ConvProblem& problem = request.problem;
    const Plan plan = planHalo(request);
    const Grid grid = makeGrid(problem, plan.layout);
    const HaloTile& tile = kTiles[plan.tile].tile;
    const bool isFolded = plan.layout.fold.h * plan.layout.fold.w > 1;
    general_ = kernelOf(plan.tile, {false, plan.cluster});
    bounded_ = kernelOf(plan.tile, {!isFolded, plan.cluster});
    setArguments(problem, grid, plan);
    launch_.blocks = static_cast<unsigned>(tilesM(problem, tile) * tilesN(grid, tile) * problem.groups * plan.cluster);
    launch_.threads = static_cast<unsigned>(tile.launchThreads());
    launch_.sharedBytes = static_cast<int>(sharedBytes(tile, grid, plan.stages, plan.slots));
    mostSharedBytes_ = static_cast<int>(mostSharedBytes(request.traits, tile));
    launch_.cluster = static_cast<unsigned>(plan.cluster);
    launch_.overlaps =
        shouldOverlap(request.traits.computeCapability, launch_.blocks, tile.held * request.traits.multiprocessors);
  }

  /** Returns when `weight` may go. */
  Status prepare(const float* weight, Device& device) {
    const Arguments& x = arguments_;
    const int64_t rows = int64_t{x.shape.groups} * x.outputBlocks * kWarpgroupM;
    const int64_t words = rows * x.chunks * x.groups * kGroupTaps * kChunkChannels;
    auto allocated = device.allocate(4 * (words + rows));
    if (!allocated.isOk()) return allocated.status();
    filter_ = std::move(allocated.value());
    auto* const ordered = reinterpret_cast<uint32_t*>(filter_.floats());
    float* const inverses = filter_.floats() + words;
    arguments_.filter = ordered;
    arguments_.filterInverses = inverses;

    // As much as any plan of this kernel takes: a limit of this plan's own would be too low for others.
    for (const Kernel kernel : {general_, bounded_}) {
      const cudaError_t allowed =
          cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, mostSharedBytes_);
      if (Status status = toStatus(allowed, "setting up a halo kernel"); !status.isOk()) return status;
    }

    return runOnOwnStream("ordering the filters for halo", [&](cudaStream_t stream) {
      launchFilterOrder(x, weight, ordered, inverses, stream);
      return cudaGetLastError();
    });
  }

  Status enqueue(const GpuTensors& tensors, void*, cudaStream_t stream) const override {
    Arguments x = arguments_;
    x.input = tensors.input;
    x.output = tensors.output;
    x.epilogue = {bias_.floats(), tensors.residual, activation_};
    return toStatus(launchKernel(isBounded(x.epilogue) ? bounded_ : general_, launch_, stream, x), "halo");
  }

  int64_t bytes() const override { return filter_.bytes() + bias_.bytes(); }

 private:
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
    x.outputBlocks = static_cast<int>(tilesM(problem, tile)) * tile.warpgroupsM();
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
  const DeviceMemory bias_;
  DeviceMemory filter_;
  /** For what isBounded, and for all else */
  Kernel bounded_, general_;
  Launch launch_{};
  int mostSharedBytes_ = 0;
  Arguments arguments_{};
};

}  // namespace
}  // namespace halo

Result<std::unique_ptr<GpuConvolution>> prepareHalo(const GpuRequest& request, GpuWeights weights, Device& device) {
  auto made = std::make_unique<halo::Halo>(request, std::move(weights.bias));
  if (Status status = made->prepare(weights.weight.floats(), device); !status.isOk()) return status;
  return std::unique_ptr<GpuConvolution>(std::move(made));
}

}  // namespace warpconv::cuda
