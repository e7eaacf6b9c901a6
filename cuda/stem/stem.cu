#include <cuda_runtime_api.h>

#include "cuda/cuda_status.h"
#include "cuda/launch.cuh"
#include "cuda/own_stream.h"
#include "cuda/stem/arguments.h"
#include "cuda/stem/plan.h"
#include "cuda/stem/stem.h"

namespace warpconv::cuda {
namespace stem {
namespace {

class Stem final : public GpuConvolution {
 public:
  Stem(const GpuRequest& request, DeviceMemory bias) : activation_(request.activation), bias_(std::move(bias)) {
    const ConvProblem& problem = request.problem;
    const Plan plan = planStem(request);
    tile_ = kTiles[plan.tile].tile;
    kernel_ = kernelOf(plan.tile);
    setArguments(problem, plan);
    launch_.blocks = static_cast<unsigned>(plan.columns * outputBlocks(problem, tile_));
    launch_.threads = static_cast<unsigned>(tile_.threads());
    launch_.sharedBytes = static_cast<int>(sharedBytes(problem, tile_, plan.patches()));
    mostSharedBytes_ = static_cast<int>(mostSharedBytes(request.traits));
    launch_.overlaps =
        shouldOverlap(request.traits.computeCapability, launch_.blocks, plan.held * request.traits.multiprocessors);
  }

  /** Returns when `weight` may go. */
  Status prepare(const float* weight, Device& device) {
    const Arguments& x = arguments_;
    const int64_t rows = int64_t{x.shape.groups} * x.outputBlocks * tile_.blockM;
    const int64_t words = rows * x.steps * kStepPairs * 2;
    auto allocated = device.allocate(4 * (words + rows));
    if (!allocated.isOk()) return allocated.status();
    filter_ = std::move(allocated.value());
    auto* const ordered = reinterpret_cast<uint32_t*>(filter_.floats());
    float* const inverses = filter_.floats() + words;
    arguments_.filter = ordered;
    arguments_.filterInverses = inverses;

    // As much as any plan of this kernel takes: a limit of this plan's own would be too low for others.
    const cudaError_t allowed =
        cudaFuncSetAttribute(kernel_, cudaFuncAttributeMaxDynamicSharedMemorySize, mostSharedBytes_);
    if (Status status = toStatus(allowed, "setting up a stem kernel"); !status.isOk()) return status;

    return runOnOwnStream("ordering the filters for stem", [&](cudaStream_t stream) {
      launchFilterOrder(x, tile_.blockM, weight, ordered, inverses, stream);
      return cudaGetLastError();
    });
  }

  Status enqueue(const GpuTensors& tensors, void*, cudaStream_t stream) const override {
    Arguments x = arguments_;
    x.input = tensors.input;
    x.output = tensors.output;
    x.epilogue = {bias_.floats(), tensors.residual, activation_};
    x.quadOutputs = x.shape.q % 4 == 0 && isQuadAligned(tensors.output) && isQuadAligned(tensors.residual);
    return toStatus(launchKernel(kernel_, launch_, stream, x), "stem");
  }

  int64_t bytes() const override { return filter_.bytes() + bias_.bytes(); }

 private:
  /** What does not depend on the call. */
  void setArguments(const ConvProblem& problem, const Plan& plan) {
    Arguments& x = arguments_;
    x.shape = shapeOf(problem);
    setPatch(problem);
    x.patches = plan.patches();
    const auto blocks = static_cast<int>(outputBlocks(problem, tile_));
    x.outputBlocks = blocks / x.shape.groups;
    x.byGroupBlocks = FastDivisor(blocks);
    x.byOutputBlocks = FastDivisor(x.outputBlocks);
    const auto rows = static_cast<int>(tilesP(problem, tile_)), columns = static_cast<int>(tilesQ(problem));
    x.tiles = x.shape.n * rows * columns;
    x.tilesApart = static_cast<int>(plan.columns);
    x.byTilesP = FastDivisor(rows);
    x.byTilesQ = FastDivisor(columns);
  }

  void setPatch(const ConvProblem& problem) {
    Arguments& x = arguments_;
    const Patch patch = patchOf(problem, tile_);
    x.patchStep = static_cast<int>(patch.step);
    x.patchRows = static_cast<int>(patch.rows);
    x.rowWords = static_cast<int>(patch.words);
    x.wordsEach = static_cast<int>(wordsEach(patch, tile_));
    x.byRowWords = FastDivisor(x.rowWords);
    x.byPatchRows = FastDivisor(x.patchRows);
    x.pairs = static_cast<int>(patch.pairs);
    x.steps = static_cast<int>(stepsOf(problem));
    int pair = 0;
    for (int64_t c = 0; c < patch.channels; ++c) {
      for (int64_t r = 0; r < problem.r; ++r) {
        for (int64_t i = 0; i < patch.pairs; ++i) {
          x.offsets[pair++] = static_cast<uint16_t>(pairOffset(problem, patch, c, r, i));
        }
      }
    }
  }

  const Activation activation_;
  const DeviceMemory bias_;
  DeviceMemory filter_;
  StemTile tile_{};
  Kernel kernel_;
  Launch launch_{};
  int mostSharedBytes_ = 0;
  Arguments arguments_{};
};

}  // namespace
}  // namespace stem

Result<std::unique_ptr<GpuConvolution>> prepareStem(const GpuRequest& request, GpuWeights weights, Device& device) {
  auto made = std::make_unique<stem::Stem>(request, std::move(weights.bias));
  if (Status status = made->prepare(weights.weight.floats(), device); !status.isOk()) return status;
  return std::unique_ptr<GpuConvolution>(std::move(made));
}

}  // namespace warpconv::cuda
