#include "cuda/epilogue/half_activation.cuh"
#include "cuda/image/patch.cuh"
#include "cuda/kernel/half_pairs.cuh"
#include "cuda/kernel/launch.cuh"

namespace warpconv::cuda::image {
namespace {

template <typename Pair>
__device__ inline void multiplyAdd(float (&sums)[4], const uint32_t (&a)[4], uint32_t low, uint32_t high) {
  if constexpr (std::is_same_v<Pair, Float16Pair>) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(low), "r"(high));
  } else {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(low), "r"(high));
  }
}

/** Four matrices of 8 x 8 halves, whose rows begin where lanes 8 i to 8 i + 7 say. */
__device__ inline void loadMatrices(uint32_t (&words)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(address)
               : "memory");
}

/**
 * Sums of a warp's rows of a tile by kFilters filters. A row's 16 outputs are the rows of a product; thread 4 g + t has
 * those of outputs g and g + 8, and pairs 4 i + t of its windows.
 */
template <typename Pair, int kFilters>
class Sums {
 public:
  /** `biases`: those of this thread's columns of the first product. */
  __device__ explicit Sums(const float2* biases) {
#pragma unroll
    for (int j = 0; j < kFilters / 8; ++j) {
      const float2 bias = biases[4 * j];
#pragma unroll
      for (auto& row : sums_) row[j][0] = row[j][2] = bias.x, row[j][1] = row[j][3] = bias.y;
    }
  }

  /** `filters`: the address of this thread's row of the first matrices; `pairs`: this thread's of the first step. */
  __device__ void add(const Arguments& x, const uint32_t* const (&windows)[kRowsOfWarp], const WindowPairs* pairs,
                      uint32_t filters) {
    const int apart = kColumns / 2 * x.strideW / 2;
#pragma unroll 1
    for (int step = 0; step < x.steps; ++step, pairs += 4, filters += kStep * 2) {
      const WindowPairs at = *pairs;
      uint32_t elements[kRowsOfWarp][4];
#pragma unroll
      for (int i = 0; i < kRowsOfWarp; ++i) {
        elements[i][0] = windows[i][at.low.offset] & at.low.mask;
        elements[i][1] = windows[i][at.low.offset + apart] & at.low.mask;
        elements[i][2] = windows[i][at.high.offset] & at.high.mask;
        elements[i][3] = windows[i][at.high.offset + apart] & at.high.mask;
      }
#pragma unroll
      for (int j = 0; j < kFilters / 16; ++j) {
        uint32_t words[4];
        loadMatrices(words, filters + j * 16 * x.filterPitch * 2);
#pragma unroll
        for (int i = 0; i < kRowsOfWarp; ++i) {
          multiplyAdd<Pair>(sums_[i][2 * j], elements[i], words[0], words[1]);
          multiplyAdd<Pair>(sums_[i][2 * j + 1], elements[i], words[2], words[3]);
        }
      }
    }
  }

  /** Eight adjacent channels of group `group` of kFilterGroup, of output g or, `isSecond`, of g + 8. */
  __device__ void octet(float (&octet)[8], int row, int group, bool isSecond) const {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      octet[2 * j] = sums_[row][4 * group + j][isSecond ? 2 : 0];
      octet[2 * j + 1] = sums_[row][4 * group + j][isSecond ? 3 : 1];
    }
  }

 private:
  float sums_[kRowsOfWarp][kFilters / 8][4];
};

/** Adds the first `count` of eight neighbouring channels. */
template <typename Pair>
__device__ inline void addHalves(float (&octet)[8], const uint16_t* halves, int count) {
  uint32_t pairs[4]{};
  if (count >= 8) {
    const uint4 all = *reinterpret_cast<const uint4*>(halves);
    pairs[0] = all.x, pairs[1] = all.y, pairs[2] = all.z, pairs[3] = all.w;
  } else {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      if (i < count) pairs[i / 2] |= static_cast<uint32_t>(halves[i]) << i % 2 * 16;
    }
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 two = Pair::toFloats(pairs[i]);
    octet[2 * i] += two.x, octet[2 * i + 1] += two.y;
  }
}

/** Finishes eight sums and stores them, where they exist: `pixel` of the output's, from `channel` on. */
template <typename Pair>
__device__ inline void store(const Arguments& x, float (&octet)[8], int pixel, int channel) {
  const int count = x.k - channel;
  if (count <= 0) return;
  if (x.residual != nullptr) {
    const auto* const residual = static_cast<const uint16_t*>(x.residual);
    addHalves<Pair>(octet, residual + int64_t{pixel} * x.residualPitch + channel, count);
  }
  activateHalves(octet, x.activation);
  auto* const to = static_cast<uint16_t*>(x.output) + int64_t{pixel} * x.outputPitch + channel;
  const uint32_t pairs[4] = {Pair::fromFloats(octet[0], octet[1]), Pair::fromFloats(octet[2], octet[3]),
                             Pair::fromFloats(octet[4], octet[5]), Pair::fromFloats(octet[6], octet[7])};
  if (count >= 8) {
    *reinterpret_cast<uint4*>(to) = make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
    return;
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    if (i < count) to[i] = static_cast<uint16_t>(pairs[i / 2] >> i % 2 * 16);
  }
}

/**
 * Block b owns tiles b, b + grid, ...: 8 rows by 16 columns of outputs of an image, all of their channels. Warp i has
 * rows 2 i and 2 i + 1. Shared memory: filters and biases in order, pairs of windows, and a patch.
 */
template <typename Pair, int kFilters>
__global__ void __launch_bounds__(kThreads, residentOf(kFilters)) imageKernel(const __grid_constant__ Arguments x) {
  extern __shared__ uint4 memory[];
  const int pieces = x.filterRows * x.filterPitch / 8;
  auto* const biases = reinterpret_cast<float*>(memory + pieces);
  auto* const pairs = reinterpret_cast<WindowPairs*>(biases + x.filterRows);
  const Patch<Pair> patch(x, reinterpret_cast<uint32_t*>(pairs + 4 * x.steps));
  for (int i = threadIdx.x; i < pieces; i += kThreads) memory[i] = static_cast<const uint4*>(x.filters)[i];
  for (int i = threadIdx.x; i < x.filterRows; i += kThreads) {
    const int channel = channelOf(i);
    biases[i] = x.bias != nullptr && channel < x.k ? x.bias[channel] : 0.0f;
  }
  // Products take pairs t and t + 4 of the 8 of a step.
  for (int i = threadIdx.x; i < 4 * x.steps; i += kThreads) {
    const int first = i / 4 * 8 + i % 4;
    pairs[i] = {windowPair(x, first), windowPair(x, first + 4)};
  }

  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int matrixRow = lane / 16 * 8 + lane % 8, matrixColumn = lane / 8 % 2 * 8;
  const auto filters =
      static_cast<uint32_t>(__cvta_generic_to_shared(memory)) + (matrixRow * x.filterPitch + matrixColumn) * 2;
  const uint32_t* windows[kRowsOfWarp];
#pragma unroll
  for (int i = 0; i < kRowsOfWarp; ++i) windows[i] = patch.window(warp * kRowsOfWarp + i, lane / 4);
  waitForKernelsBefore();
  letNextKernelBegin();
  for (int index = blockIdx.x; index < x.tiles; index += gridDim.x) {
    const OwnTile tile(x, index);
    patch.bring(tile);
    __syncthreads();
    for (int first = 0; first < x.filterRows; first += kFilters) {
      Sums<Pair, kFilters> sums(reinterpret_cast<const float2*>(biases + first) + lane % 4);
      sums.add(x, windows, pairs + lane % 4, filters + first * x.filterPitch * 2);
#pragma unroll
      for (int i = 0; i < 2 * kRowsOfWarp * (kFilters / kFilterGroup); ++i) {
        const int group = i % (kFilters / kFilterGroup), half = i / (kFilters / kFilterGroup) % 2;
        const int row = i / (kFilters / kFilterGroup) / 2;
        const int p = tile.firstP + warp * kRowsOfWarp + row, q = tile.firstQ + lane / 4 + half * 8;
        const int channel = first + group * kFilterGroup + lane % 4 * 8;
        float octet[8];
        sums.octet(octet, row, group, half != 0);
        if (p < x.p && q < x.q) store<Pair>(x, octet, (tile.n * x.p + p) * x.q + q, channel);
      }
    }
    __syncthreads();
  }
}

}  // namespace

Kernel kernelOf(int tile, FloatType type) {
  static constexpr Kernel kKernels[][kTileCount] = {
      {imageKernel<Float16Pair, kTiles[0]>, imageKernel<Float16Pair, kTiles[1]>},
      {imageKernel<BFloat16Pair, kTiles[0]>, imageKernel<BFloat16Pair, kTiles[1]>}};
  return kKernels[type == FloatType::bfloat16 ? 1 : 0][tile];
}

}  // namespace warpconv::cuda::image
