#include <cuda_runtime_api.h>

#include "cuda/host/cuda_status.h"
#include "cuda/kernel/launch.cuh"
#include "cuda/stem/arguments.h"
#include "cuda/stem/plan.h"
#include "cuda/stem/stem.h"
#include "cuda/tensor_core/split_filters.h"

namespace warpconv::cuda {
namespace stem {
namespace {

class Stem final : public GpuConvolution {
 public:
  Stem(const GpuRequest& request, const Plan& plan, const float* bias) : activation_(request.activation), bias_(bias) {
    const ConvProblem& problem = request.problem;
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

  Status prepare(const FilterForm& form, const ConvProblem& problem, const GpuWeights& weights) {
    const int64_t words = filterWords(problem, tile_);
    const auto order = [&](const float* given, uint32_t* ordered, float* inverses, cudaStream_t stream) {
      launchFilterOrder(arguments_, tile_.blockM, given, ordered, inverses, stream);
    };
    Status status = filters_.bring(form, problem, weights, "ordering the filters for stem", words, order);
    if (!status.isOk()) return status;
    filters_.giveTo(arguments_);

    // As much as any plan of this kernel takes: a limit of this plan's own would be too low for others.
    return toStatus(cudaFuncSetAttribute(kernel_, cudaFuncAttributeMaxDynamicSharedMemorySize, mostSharedBytes_),
                    "setting up a stem kernel");
  }

  Status enqueue(const GpuTensors& given, void*, cudaStream_t stream) const override {
    const FloatTensors tensors = floatsOf(given);
    Arguments x = arguments_;
    x.input = tensors.input;
    x.output = tensors.output;
    x.epilogue = {bias_, tensors.residual, activation_};
    x.quadOutputs = x.shape.q % 4 == 0 && isQuadAligned(tensors.output) && isQuadAligned(tensors.residual);
    return toStatus(launchKernel(kernel_, launch_, stream, x), "stem");
  }

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
  const float* const bias_;
  SplitFilters filters_;
  StemTile tile_{};
  Kernel kernel_;
  Launch launch_{};
  int mostSharedBytes_ = 0;
  Arguments arguments_{};
};

}  // namespace
}  // namespace stem

Result<std::unique_ptr<GpuConvolution>> prepareStem(const GpuRequest& request, const GpuWeights& weights) {
  const stem::Plan plan = stem::planStem(request);
  auto made = std::make_unique<stem::Stem>(request, plan, weights.bias);
  const FilterForm form = stem::formOf(request.problem, plan);
  if (Status status = made->prepare(form, request.problem, weights); !status.isOk()) return status;
  return std::unique_ptr<GpuConvolution>(std::move(made));
}

}  // namespace warpconv::cuda
