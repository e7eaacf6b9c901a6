#include "cuda/host/cuda_status.h"
#include "cuda/host/gpu_weights.h"
#include "cuda/implicit/arguments.h"
#include "cuda/implicit/filter_order.h"
#include "cuda/implicit/implicit.h"
#include "cuda/implicit/plan.h"
#include "cuda/implicit/tensor_map.h"
#include "cuda/kernel/launch.cuh"
#include "cuda/kernel/lazy_kernel.h"
#include "cuda/planning/half_format.h"
#include "divide.h"

namespace warpconv::cuda {
namespace implicit {
namespace {

class Implicit final : public GpuConvolution {
 public:
  Implicit(const GpuRequest& request, const Plan& plan, const float* bias)
      : problem_(request.problem), tile_(tileOf(request.problem, plan.tile)), plan_(plan) {
    kernel_.set(kernelOf(plan.tile, problem_.format.input.type, plan.persists), mostSharedBytes(request.traits));
    setArguments(plan, request.activation, bias);
    launch_ = {static_cast<unsigned>(plan.blocks), static_cast<unsigned>(tile_.threads())};
    launch_.cluster = static_cast<unsigned>(plan.split);
    launch_.overlaps = shouldOverlap(request.traits.computeCapability, plan.blocks,
                                     int64_t{tile_.held} * request.traits.multiprocessors);
  }

  Status prepare(const GpuWeights& weights) {
    const auto order = [&](const float* given, void* ordered, cudaStream_t stream) {
      return launchFilterOrder(shapeOf(problem_), problem_.format.input.type, arguments_.filterRows,
                               arguments_.channelChunks, given, ordered, stream);
    };
    auto filters = filtersIn(formOf(problem_), weights, problem_, "ordering the filters for implicit", order);
    if (!filters.isOk()) return filters.status();
    filters_ = std::move(filters.value());
    arguments_.filters = filters_->memory->data();
    return {};
  }

  Status load(bool) const override { return toStatus(kernel_.load(), "setting up an implicit kernel"); }

  Status enqueue(const GpuTensors& tensors, void*, cudaStream_t stream) const override {
    Arguments x = arguments_;
    x.residual = tensors.residual;
    x.output = tensors.output;
    const Rooms& rooms = tensors.residual == nullptr ? plan_.rooms : plan_.residualRooms;
    Launch launch = launch_;
    launch.sharedBytes = sharedBytes(tile_, plan_, rooms);
    x.stages = rooms.stages;
    x.heldBoxes = rooms.heldBoxes;
    x.barriersAt = launch.sharedBytes - kBarrierBytes;
    if (Status status = mapTensors(tensors, x); !status.isOk()) return status;
    const cudaError_t loaded = kernel_.load();
    return toStatus(loaded == cudaSuccess ? launchKernel(kernel_.get(), launch, stream, x) : loaded, "implicit");
  }

 private:
  Status mapTensors(const GpuTensors& tensors, Arguments& x) const {
    const Status windows = mapWindows(problem_, tensors.input, tile_.chunkChannels(), tile_.pixels, x.input);
    if (!plan_.persists || !windows.isOk()) return windows;
    const PixelRows rows{problem_.format.output.type, x.pixels, x.channels};
    const Status outputs = mapBoxes(rows, x.outputPitch, tensors.output, tile_.boxChannels(), x.outputBoxes);
    if (tensors.residual == nullptr || !outputs.isOk()) return outputs;
    return mapBoxes(rows, x.residualPitch, tensors.residual, tile_.boxChannels(), x.residualBoxes);
  }

  /** What does not depend on the call. */
  void setArguments(const Plan& plan, const Activation& activation, const float* bias) {
    const ConvProblem& problem = problem_;
    const Shape s = shapeOf(problem);
    Arguments& x = arguments_;
    x.bias = bias;
    x.activation = activation;
    x.residualPitch = static_cast<int>(pitchOf(problem.format.residual, problem.k));
    x.outputPitch = static_cast<int>(pitchOf(problem.format.output, problem.k));
    x.floatResidual = problem.format.residual.type != problem.format.input.type;
    x.floatOutput = problem.format.output.type != problem.format.input.type;
    x.pixels = s.n * s.p * s.q;
    x.channels = s.k;
    x.filterRows = static_cast<int>(filterRows(problem));
    x.chunks = static_cast<int>(chunksOf(problem));
    x.channelChunks = x.chunks / (s.r * s.s);
    x.s = s.s;
    x.strideH = s.strideH, x.strideW = s.strideW;
    x.padTop = s.padTop, x.padLeft = s.padLeft;
    x.dilationH = s.dilationH, x.dilationW = s.dilationW;
    x.tilesN = static_cast<int>(ceilDivide(s.k, tile_.filters));
    x.tiles = static_cast<int>(tileCount(problem, tile_));
    x.byTilesN = FastDivisor(x.tilesN);
    x.byImage = FastDivisor(s.p * s.q);
    x.byRow = FastDivisor(s.q);
    x.byChannelChunks = FastDivisor(x.channelChunks);
    x.byColumns = FastDivisor(s.s);
    x.split = plan.split;
  }

  const ConvProblem problem_;
  const ImplicitTile tile_;
  const Plan plan_;
  std::shared_ptr<const DeviceFilters> filters_;
  LazyKernel<Kernel> kernel_;
  Launch launch_{};
  Arguments arguments_{};
};

}  // namespace
}  // namespace implicit

Result<std::unique_ptr<GpuConvolution>> prepareImplicit(const GpuRequest& request, const GpuWeights& weights) {
  auto made = std::make_unique<implicit::Implicit>(request, implicit::planImplicit(request), weights.bias);
  if (Status status = made->prepare(weights); !status.isOk()) return status;
  return std::unique_ptr<GpuConvolution>(std::move(made));
}

}  // namespace warpconv::cuda
