#include <algorithm>
#include <cstdint>
#include <utility>

#include "cuda/cuda_status.h"
#include "cuda/epilogue.cuh"
#include "cuda/launch.cuh"
#include "cuda/own_stream.h"
#include "cuda/pointwise/filter_halves.h"
#include "cuda/pointwise/kernels.h"
#include "cuda/pointwise/planner.h"
#include "cuda/pointwise/pointwise.h"
#include "cuda/shape.h"
#include "divide.h"

namespace warpconv::cuda {
namespace pointwise {
namespace {

/**
 * K x C' filters as [groups][C'][pitch], thread (x, y) of block (bx, by) one element: filter bx * 32 + x of the group,
 * and row by * 8 + y, and every gridDim.y * 8 rows on, of the groups' channels one after the other. Zeros beyond K'.
 */
__global__ void __launch_bounds__(256)
    transposeFilters(const float* weight, float* transposed, int groupOutputs, int groupInputs, int rows, int pitch) {
  const int filter = blockIdx.x * 32 + threadIdx.x;
  if (filter >= pitch) return;
  for (int row = blockIdx.y * 8 + threadIdx.y; row < rows; row += gridDim.y * 8) {
    const int group = row / groupInputs;
    const int channel = row - group * groupInputs;
    transposed[int64_t{row} * pitch + filter] =
        filter < groupOutputs ? weight[(int64_t{group} * groupOutputs + filter) * groupInputs + channel] : 0.0f;
  }
}

/** Kernels for what may be given, and what their launch takes beside the grid. */
struct Instances {
  /** By Given::aligned and Given::bounded */
  Kernel kernels[2][2];
  int threads;
  int sharedBytes;
  /** That any launch of the kernels has */
  int mostSharedBytes;
};

class Pointwise final : public GpuConvolution {
 public:
  Pointwise(const GpuRequest& request, const Candidate& candidate, DeviceMemory weight, DeviceMemory bias, int pitch)
      : weight_(std::move(weight)), bias_(std::move(bias)) {
    const Shape x = shapeOf(request.problem);
    arguments_ = {.weight = weight_.floats(),
                  .bias = bias_.floats(),
                  .activation = request.activation,
                  .groups = x.groups,
                  .groupInputs = x.groupInputs,
                  .groupOutputs = x.groupOutputs,
                  .weightPitch = pitch,
                  .inputArea = x.h * x.w,
                  .outputArea = x.p * x.q,
                  .pixels = x.n * x.p * x.q,
                  .inputWidth = x.w,
                  .outputWidth = x.q,
                  .strideH = x.strideH,
                  .strideW = x.strideW,
                  .contiguous = x.strideH == 1 && x.strideW == 1,
                  .aligned = x.strideH == 1 && x.strideW == 1 && x.p * x.q % 4 == 0,
                  .iterations = candidate.iterations,
                  .split = candidate.split,
                  .byOutputArea = FastDivisor(x.p * x.q),
                  .byOutputWidth = FastDivisor(x.q),
                  .byGroups = FastDivisor(x.groups),
                  .bySplit = FastDivisor(candidate.split)};
    if (const auto* tile = std::get_if<DynamicTile>(&candidate.tile)) {
      takeTile(tile->blockFilters(), tile->blockPixels());
      const Kernel kernel = dynamicKernelOf(*tile);
      const int sharedBytes = static_cast<int>(tile->sharedBytes());
      instances_ = {{{kernel, kernel}, {kernel, kernel}}, DynamicTile::kDynamicThreads, sharedBytes, sharedBytes};
    } else if (const auto* gemm = std::get_if<GemmTile>(&candidate.tile)) {
      takeTile(gemm->filters, gemm->pixels);
      takeSplit(*gemm, gemm->sharedBytes(), gemm->residentBlocks(), gemmKernelOf);
    } else if (const auto* tensor = std::get_if<TensorTile>(&candidate.tile)) {
      takeTile(tensor->block.m, tensor->block.n);
      takeSplit(*tensor, tensor->sharedBytes(), tensor->residentBlocks, tensorKernelOf);
    } else if (const auto* stream = std::get_if<StreamTile>(&candidate.tile)) {
      takeTile(stream->filters, stream->pixels());
      takeStreamed(*stream, request.traits, streamKernelOf);
    } else if (const auto* streamTensor = std::get_if<StreamTensorTile>(&candidate.tile)) {
      takeTile(streamTensor->m, streamTensor->n);
      takeStreamed(*streamTensor, request.traits, streamTensorKernelOf);
    } else if (const auto* warpgroup = std::get_if<WarpgroupTile>(&candidate.tile)) {
      takeHalved(*warpgroup, warpgroup->pixels, WarpgroupTile::kHalves, request.traits,
                 [&](const WarpgroupTile& tile, int split, const Given& given) {
                   const bool isPair = tile.isPair(arguments_.splitChannels, given.aligned);
                   return warpgroupKernelOf(tile, split, isPair, given);
                 });
    } else if (const auto* rows = std::get_if<RowsTile>(&candidate.tile)) {
      takeHalved(*rows, RowsTile::kPixels, rows->halves(), request.traits, rowsKernelOf);
    } else if (const auto* tf32Rows = std::get_if<Tf32RowsTile>(&candidate.tile)) {
      takeHalved(*tf32Rows, Tf32RowsTile::kPixels, tf32Rows->halves(), request.traits, tf32RowsKernelOf);
    } else {
      const auto& bf16Rows = std::get<Bf16RowsTile>(candidate.tile);
      takeHalved(bf16Rows, Bf16RowsTile::kPixels, bf16Rows.halves(), request.traits,
                 [](const Bf16RowsTile& tile, int, const Given& given) { return bf16RowsKernelOf(tile, given); });
    }
    overlaps_ = shouldOverlap(request.traits.computeCapability, blocks_, blocksHeld_ * request.traits.multiprocessors);
  }

  /** Lets the kernels have the shared memory they need, and the filters in the form they need: then `weight` may go. */
  Status initialise(const Shape& shape, const float* weight, Device& device) {
    for (const auto& kernels : instances_.kernels) {
      for (const Kernel kernel : kernels) {
        const cudaError_t error =
            cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, instances_.mostSharedBytes);
        if (Status status = toStatus(error, "setting up a pointwise kernel"); !status.isOk()) return status;
      }
    }
    if (halved_) return halveFilters(shape, weight, device);
    return isStreamed_ ? copyWeight(device) : Status{};
  }

  Status enqueue(const GpuTensors& tensors, void*, cudaStream_t stream) const override {
    Arguments arguments = arguments_;
    arguments.input = tensors.input;
    arguments.residual = tensors.residual;
    arguments.output = tensors.output;
    arguments.aligned = arguments.aligned && isQuadAligned(tensors.input) && isQuadAligned(tensors.residual) &&
                        isQuadAligned(tensors.output);
    const bool bounded = isBounded({arguments.bias, arguments.residual, arguments.activation});
    const Launch launch{static_cast<unsigned>(blocks_), static_cast<unsigned>(instances_.threads),
                        instances_.sharedBytes, overlaps_, static_cast<unsigned>(arguments.split)};
    return toStatus(launchKernel(instances_.kernels[arguments.aligned][bounded], launch, stream, arguments),
                    "pointwise");
  }

  int64_t bytes() const override { return weight_.bytes() + bias_.bytes() + halves_.bytes(); }

 private:
  /** The grid of tiles, times what shares one. */
  void takeTile(int filters, int pixels) {
    arguments_.filterTiles = ceilDivide(arguments_.groupOutputs, filters);
    arguments_.byFilterTiles = FastDivisor(arguments_.filterTiles);
    blocks_ = int64_t{arguments_.filterTiles} * arguments_.groups * arguments_.split *
              ceilDivide(arguments_.pixels, pixels * arguments_.iterations);
  }

  /** The channels of a block, and its kernels. */
  template <typename Tile>
  void takeSplit(const Tile& tile, int64_t sharedBytes, int blocksHeld, auto&& kernelOf) {
    arguments_.splitChannels =
        static_cast<int>(channelsOfBlock(arguments_.groupInputs, tile.unitChannels(), arguments_.split));
    for (const bool aligned : {false, true}) {
      for (const bool bounded : {false, true}) {
        instances_.kernels[aligned][bounded] = kernelOf(tile, {aligned, bounded});
      }
    }
    instances_.threads = tile.threads();
    instances_.sharedBytes = instances_.mostSharedBytes = static_cast<int>(sharedBytes);
    blocksHeld_ = blocksHeld;
  }

  /**
   * The same for kernels that read all filters at once, whose shared memory depends on the problem: all plans let one
   * have the same.
   */
  template <typename Tile>
  void takeStreamed(const Tile& tile, const GpuTraits& traits, auto&& kernelOf) {
    const int64_t channels = channelsOfBlock(arguments_.groupInputs, tile.unitChannels(), arguments_.split);
    const int64_t sharedBytes = sharedBytesFor(tile, channels, arguments_.split, arguments_.aligned);
    takeSplit(tile, sharedBytes, tile.residentBlocks, kernelOf);
    instances_.mostSharedBytes = static_cast<int>(std::min(kMostStreamedBytes, traits.sharedBytesPerBlock));
    isStreamed_ = true;
  }

  /** The same for those by products of warpgroups, of up to so many pixels. */
  template <typename Tile>
  void takeHalved(const Tile& tile, int pixels, const HalvesLayout& layout, const GpuTraits& traits, auto&& kernelOf) {
    arguments_.tilePixels = static_cast<int>(pixelsOfTile(arguments_.pixels, pixels));
    takeTile(layout.filters, arguments_.tilePixels);
    takeStreamed(tile, traits, [&](const Tile& own, const Given& given) {
      return kernelOf(own, arguments_.split, given);
    });
    halved_ = {layout, tile.filterBytes(arguments_.splitChannels)};
  }

  /** Has blocks read from as many copies as filters of so many bytes should have. */
  int takeCopies(int64_t bytes) {
    const int64_t pixelTiles = blocks_ / (int64_t{arguments_.filterTiles} * arguments_.groups * arguments_.split);
    const int copies = copiesOf(bytes, pixelTiles);
    arguments_.copyMask = copies - 1;
    arguments_.copyWords = copies > 1 ? static_cast<int>(bytes / 4) : 0;
    return copies;
  }

  /** The first of `copies`, of so many bytes each, to the others. */
  static cudaError_t copyFirst(void* first, int copies, int64_t bytes, cudaStream_t stream) {
    const auto pitch = static_cast<size_t>(bytes);
    for (int i = 1; i < copies; ++i) {
      const cudaError_t error =
          cudaMemcpyAsync(static_cast<char*>(first) + i * pitch, first, pitch, cudaMemcpyDeviceToDevice, stream);
      if (error != cudaSuccess) return error;
    }
    return cudaSuccess;
  }

  Status copyWeight(Device& device) {
    const int64_t bytes = int64_t{4} * arguments_.groups * arguments_.groupInputs * arguments_.weightPitch;
    const int copies = takeCopies(bytes);
    if (copies == 1) return {};
    Result<DeviceMemory> allocated = device.allocate(copies * bytes);
    if (!allocated.isOk()) return allocated.status();
    const DeviceMemory one = std::exchange(weight_, std::move(allocated.value()));
    arguments_.weight = weight_.floats();
    return runOnOwnStream("copying filters", [&](cudaStream_t stream) {
      const cudaError_t error = cudaMemcpyAsync(weight_.floats(), one.floats(), static_cast<size_t>(bytes),
                                                cudaMemcpyDeviceToDevice, stream);
      return error == cudaSuccess ? copyFirst(weight_.floats(), copies, bytes, stream) : error;
    });
  }

  /** Blocks copy whole chunks of filters, the last ones beyond the last filter: what lies there is finite. */
  Status halveFilters(const Shape& shape, const float* weight, Device& device) {
    const int64_t tiles = int64_t{shape.groups} * arguments_.filterTiles;
    const HalvesLayout& layout = halved_->layout;
    const int steps = ceilDivide(shape.groupInputs, layout.stepChannels);
    const int64_t stepBytes = layout.stepBytes();
    const int64_t beyond =
        arguments_.split * arguments_.splitChannels / layout.stepChannels * stepBytes + halved_->blockBytes;
    const int64_t ofCopy = tiles * steps * stepBytes;
    const int copies = takeCopies(ofCopy);
    const int64_t bytes = copies * ofCopy + beyond;
    Result<DeviceMemory> allocated = device.allocate(bytes + (layout.isScaled() ? 4 * tiles * layout.filters : 0));
    if (!allocated.isOk()) return allocated.status();
    halves_ = std::move(allocated.value());
    auto* const halves = reinterpret_cast<uint32_t*>(halves_.floats());
    float* const inverses = halves_.floats() + bytes / 4;
    arguments_.halves = halves;
    arguments_.filterInverses = inverses;
    return runOnOwnStream("splitting filters", [&](cudaStream_t stream) {
      const cudaError_t error = cudaMemsetAsync(halves, 0, static_cast<size_t>(bytes), stream);
      if (error != cudaSuccess) return error;
      launchFilterHalves(shape, layout, arguments_.filterTiles, steps, weight, halves, inverses, stream);
      const cudaError_t launched = cudaGetLastError();
      return launched == cudaSuccess ? copyFirst(halves, copies, ofCopy, stream) : launched;
    });
  }

  DeviceMemory weight_;
  const DeviceMemory bias_;
  /** Where products are those of warpgroups: how their filters lie, and bytes of those that a block copies */
  struct Halved {
    HalvesLayout layout;
    int64_t blockBytes;
  };
  std::optional<Halved> halved_;
  DeviceMemory halves_;
  Arguments arguments_{};
  int64_t blocks_ = 0;
  /** By a multiprocessor; none for kernels that do not wait for those before */
  int64_t blocksHeld_ = 0;
  Instances instances_{};
  bool overlaps_ = false, isStreamed_ = false;
};

/** Weights as the kernels read them; filters are padded to a multiple of four, which 16-byte copies need. */
Result<DeviceMemory> transpose(const GpuWeights& weights, const Shape& x, int pitch, Device& device) {
  const int rows = x.groups * x.groupInputs;
  Result<DeviceMemory> transposed = device.allocate(int64_t{4} * rows * pitch);
  if (!transposed.isOk()) return transposed;
  const dim3 blocks(ceilDivide(pitch, 32), std::min(ceilDivide(rows, 8), 65535));
  transposeFilters<<<blocks, dim3(32, 8), 0, cudaStreamPerThread>>>(
      weights.weight.floats(), transposed.value().floats(), x.groupOutputs, x.groupInputs, rows, pitch);
  if (Status status = launchStatus("transposing filters"); !status.isOk()) return status;
  if (Status status = toStatus(cudaStreamSynchronize(cudaStreamPerThread), "transposing filters"); !status.isOk()) {
    return status;
  }
  return transposed;
}

}  // namespace

Kernel dynamicKernelOf(const DynamicTile& tile) {
  for (const auto part : {detail::fewChannelsKernel, detail::manyChannelsKernel, detail::pixelsKernel}) {
    if (const Kernel kernel = part(tile)) return kernel;
  }
  return nullptr;
}

}  // namespace pointwise

Result<std::unique_ptr<GpuConvolution>> preparePointwise(const GpuRequest& request, GpuWeights weights,
                                                         Device& device) {
  const auto candidate =
      pointwise::findCandidate(pointwise::planPointwise(request.problem, request.traits), request.variant);
  const Shape x = shapeOf(request.problem);
  const int pitch = (x.groupOutputs + 3) / 4 * 4;
  Result<DeviceMemory> transposed = pointwise::transpose(weights, x, pitch, device);
  if (!transposed.isOk()) return transposed.status();
  auto made = std::make_unique<pointwise::Pointwise>(request, *candidate, std::move(transposed.value()),
                                                     std::move(weights.bias), pitch);
  if (Status status = made->initialise(x, weights.weight.floats(), device); !status.isOk()) return status;
  return std::unique_ptr<GpuConvolution>(std::move(made));
}

}  // namespace warpconv::cuda
