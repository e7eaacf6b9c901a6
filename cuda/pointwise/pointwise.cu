#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "cuda/epilogue/epilogue.cuh"
#include "cuda/host/cuda_status.h"
#include "cuda/host/gpu_weights.h"
#include "cuda/kernel/launch.cuh"
#include "cuda/kernel/lazy_kernel.h"
#include "cuda/planning/shape.h"
#include "cuda/pointwise/arguments.h"
#include "cuda/pointwise/filter_forms.h"
#include "cuda/pointwise/filter_halves.h"
#include "cuda/pointwise/planner.h"
#include "cuda/pointwise/pointwise.h"
#include "cuda/tensor_core/window_filter_order.h"
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
  /** By KernelCase::aligned and KernelCase::bounded */
  LazyKernel<Kernel> kernels[2][2];
  int threads;
  int sharedBytes;

  /**
   * @param most - shared memory that any launch of the kernels has
   * @param channels - of a block
   */
  template <typename Tile>
  void set(const Tile& tile, int64_t bytes, int64_t most, int split, int64_t channels) {
    threads = tile.threads();
    sharedBytes = static_cast<int>(bytes);
    for (const bool aligned : {false, true}) {
      for (const bool bounded : {false, true}) {
        const Kernel kernel = tile.kernel({split, channels, aligned, bounded});
        kernels[aligned][bounded].set(kernel, static_cast<int>(most));
      }
    }
  }
};

class Pointwise final : public GpuConvolution {
 public:
  Pointwise(const GpuRequest& request, const Candidate& candidate, const float* bias) {
    const Shape x = shapeOf(request.problem);
    arguments_ = {.bias = bias,
                  .activation = request.activation,
                  .groups = x.groups,
                  .groupInputs = x.groupInputs,
                  .groupOutputs = x.groupOutputs,
                  .weightPitch = static_cast<int>(transposedPitch(request.problem)),
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
    std::visit([&](const auto& tile) { take(tile, request.traits); }, candidate.tile);
    overlaps_ = shouldOverlap(request.traits.computeCapability, blocks_, blocksHeld_ * request.traits.multiprocessors);
  }

  Status prepare(const FilterForms& forms, const ConvProblem& problem, const GpuWeights& weights) {
    auto transposed = filtersIn(forms.transposed.form, weights, problem, "transposing filters",
                                [&](const float* given, void* ordered, cudaStream_t stream) {
                                  auto* const filters = static_cast<float*>(ordered);
                                  if (!forms.isRounded) {
                                    transpose(given, filters, stream);
                                    return copyFirst(ordered, forms.transposed, stream);
                                  }
                                  const auto steps = static_cast<int>(forms.transposed.form.parameters[2]);
                                  launchWindowFilterOrder(shapeOf(problem), arguments_.weightPitch, steps, true, given,
                                                          filters, stream);
                                  return cudaGetLastError();
                                });
    if (!transposed.isOk()) return transposed.status();
    weight_ = std::move(transposed.value());
    arguments_.weight = weight_->floats();
    readCopies(forms.halves ? *forms.halves : forms.transposed);
    return forms.halves ? halve(forms, problem, weights) : Status{};
  }

  Status load(bool withResidual) const override {
    const bool bounded = !withResidual && isClamp(arguments_.activation);
    return toStatus(instances_.kernels[arguments_.aligned][bounded].load(), "setting up a pointwise kernel");
  }

  Status enqueue(const GpuTensors& given, void*, cudaStream_t stream) const override {
    const FloatTensors tensors = floatsOf(given);
    Arguments arguments = arguments_;
    arguments.input = tensors.input;
    arguments.residual = tensors.residual;
    arguments.output = tensors.output;
    arguments.aligned = arguments.aligned && isQuadAligned(tensors.input) && isQuadAligned(tensors.residual) &&
                        isQuadAligned(tensors.output);
    const bool bounded = isBounded({arguments.bias, arguments.residual, arguments.activation});
    const Launch launch{static_cast<unsigned>(blocks_), static_cast<unsigned>(instances_.threads),
                        instances_.sharedBytes, overlaps_, static_cast<unsigned>(arguments.split)};
    const LazyKernel<Kernel>& kernel = instances_.kernels[arguments.aligned][bounded];
    const cudaError_t loaded = kernel.load();
    return toStatus(loaded == cudaSuccess ? launchKernel(kernel.get(), launch, stream, arguments) : loaded,
                    "pointwise");
  }

 private:
  /** No plan is made of a blocking without a kernel. */
  void take(std::monostate, const GpuTraits&) {}

  template <typename Tile>
  void take(const Tile& tile, const GpuTraits& traits) {
    constexpr Family kFamily = Tile::kFamily;
    const int64_t channels = channelsOfBlock(arguments_.groupInputs, tile.unitChannels(), arguments_.split);
    const int64_t sharedBytes = sharedBytesFor(tile, channels, arguments_.split, arguments_.aligned);
    // What those need that read all filters at once depends on the problem: all plans let a kernel have the same.
    const int64_t most = kFamily.isStreamed() ? std::min(kMostStreamedBytes, traits.sharedBytesPerBlock) : sharedBytes;
    arguments_.splitChannels = static_cast<int>(channels);
    instances_.set(tile, sharedBytes, most, arguments_.split, channels);
    // The paper's kernels do not wait for those before.
    blocksHeld_ = std::is_same_v<Tile, DynamicTile> ? 0 : residentBlocksOf(tile);
    const auto [filters, pixels] = tile.patch();
    arguments_.tilePixels =
        kFamily.filters == FilterSource::parts ? static_cast<int>(pixelsOfTile(arguments_.pixels, pixels)) : pixels;
    takeGrid(filters, arguments_.tilePixels);
  }

  /** The grid of tiles, times what shares one. */
  void takeGrid(int filters, int pixels) {
    arguments_.filterTiles = ceilDivide(arguments_.groupOutputs, filters);
    arguments_.byFilterTiles = FastDivisor(arguments_.filterTiles);
    blocks_ = int64_t{arguments_.filterTiles} * arguments_.groups * arguments_.split *
              ceilDivide(arguments_.pixels, pixels * arguments_.iterations);
  }

  /** Has blocks read from copies of filters in turns. */
  void readCopies(const CopiedForm& form) {
    arguments_.copyMask = form.copiesRead - 1;
    arguments_.copyWords = form.copiesRead > 1 ? static_cast<int>(form.copyBytes / 4) : 0;
  }

  /** The first copy to the others, twice as many each time. */
  static cudaError_t copyFirst(void* first, const CopiedForm& form, cudaStream_t stream) {
    const auto bytes = static_cast<size_t>(form.copyBytes), all = form.copies * bytes;
    cudaError_t error = cudaGetLastError();
    for (size_t there = bytes; there < all && error == cudaSuccess; there *= 2) {
      error = cudaMemcpyAsync(static_cast<char*>(first) + there, first, there, cudaMemcpyDeviceToDevice, stream);
    }
    return error;
  }

  void transpose(const float* given, float* transposed, cudaStream_t stream) const {
    const Arguments& x = arguments_;
    const int rows = x.groups * x.groupInputs;
    const dim3 blocks(ceilDivide(x.weightPitch, 32), std::min(ceilDivide(rows, 8), 65535));
    transposeFilters<<<blocks, dim3(32, 8), 0, stream>>>(given, transposed, x.groupOutputs, x.groupInputs, rows,
                                                         x.weightPitch);
  }

  /** Blocks copy whole chunks of filters, the last ones beyond the last filter: what lies there is finite. */
  Status halve(const FilterForms& forms, const ConvProblem& problem, const GpuWeights& weights) {
    const auto inversesOf = [&](void* ordered) {
      return reinterpret_cast<float*>(static_cast<char*>(ordered) + forms.inversesAt);
    };
    auto halves = filtersIn(forms.halves->form, weights, problem, "splitting filters",
                            [&](const float* given, void* ordered, cudaStream_t stream) {
                              const cudaError_t error =
                                  cudaMemsetAsync(ordered, 0, static_cast<size_t>(forms.inversesAt), stream);
                              if (error != cudaSuccess) return error;
                              launchFilterHalves(shapeOf(problem), forms.layout, forms.filterTiles, forms.steps, given,
                                                 static_cast<uint32_t*>(ordered), inversesOf(ordered), stream);
                              return copyFirst(ordered, *forms.halves, stream);
                            });
    if (!halves.isOk()) return halves.status();
    halves_ = std::move(halves.value());
    arguments_.halves = reinterpret_cast<const uint32_t*>(halves_->floats());
    arguments_.filterInverses = inversesOf(halves_->floats());
    return {};
  }

  std::shared_ptr<const DeviceFilters> weight_, halves_;
  Arguments arguments_{};
  int64_t blocks_ = 0;
  /** By a multiprocessor; none for kernels that do not wait for those before */
  int64_t blocksHeld_ = 0;
  Instances instances_{};
  bool overlaps_ = false;
};

}  // namespace

}  // namespace pointwise

Result<std::unique_ptr<GpuConvolution>> preparePointwise(const GpuRequest& request, const GpuWeights& weights) {
  const ConvProblem& problem = request.problem;
  const auto candidate = pointwise::findCandidate(pointwise::planPointwise(problem, request.traits), request.variant);
  const pointwise::FilterForms forms = pointwise::formsOf(problem, *candidate, weights.filters);
  auto made = std::make_unique<pointwise::Pointwise>(request, *candidate, weights.bias);
  if (Status status = made->prepare(forms, problem, weights); !status.isOk()) return status;
  return std::unique_ptr<GpuConvolution>(std::move(made));
}

}  // namespace warpconv::cuda
