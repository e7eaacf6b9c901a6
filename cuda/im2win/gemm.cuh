#pragma once

#include "cuda/im2win/filter_copies.cuh"
#include "cuda/im2win/outputs.cuh"
#include "cuda/im2win/sum_again.cuh"
#include "cuda/kernel/async_copy.cuh"
#include "cuda/kernel/launch.cuh"
#include "cuda/tensor_core/tensor_sums.cuh"

namespace warpconv::cuda::im2win {

/**
 * Copies a tile's window elements, blockK x blockN. A thread stays with one window, n0 + thread % blockN, and takes
 * kCount steps of the reduction that follow each other, so that a warp's loads go along a row of windows and its steps
 * are uniform.
 */
template <GemmTile kTile>
class WindowCopies {
 public:
  /** `shared`: of the first stage's windows. */
  __device__ WindowCopies(const GemmArguments& x, const BlockPlace& place, int firstStep, uint32_t shared) {
    const int column = threadIdx.x % kTile.blockN;
    const int row = threadIdx.x / kTile.blockN * kCount;
    shared_ = shared + (row * kTile.pitchN() + column) * 4;
    order_ = x.order + firstStep + row;
    const Window window = windowAt(x, place.group, place.n0 + column);
    window_ = settled(window.first);
    outside_ = window.outside;
    if (kAhead) fetchSteps();
  }

  /** Into a stage so many bytes from the first; with prefetch the steps of the tile after that are read meanwhile. */
  __device__ void copyTile(int stage) {
    if (!kAhead) fetchSteps();
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      copyOrZero<4>(shared_ + stage + i * kTile.pitchN() * 4, window_ + steps_[i].offset,
                    (steps_[i].bits & outside_) == 0);
    }
    order_ += kTile.blockK;
    if (kAhead) fetchSteps();
  }

 private:
  static constexpr int kCount = kTile.blockK * kTile.blockN / kTile.threads();
  /** Whether the next tile's steps are read before they are needed; more of them would take registers from the sums. */
  static constexpr bool kAhead = kTile.stages > 1 && (kCount <= 8 || !kTile.onTensorCores());
  static_assert(kTile.threads() % kTile.blockN == 0 && kCount * kTile.threads() == kTile.blockK * kTile.blockN);

  /** Two at a time where there are two: tiles start at even steps. */
  __device__ void fetchSteps() {
    if constexpr (kCount % 2 == 0) {
#pragma unroll
      for (int i = 0; i < kCount; i += 2) {
        const int4 two = __ldg(reinterpret_cast<const int4*>(order_ + i));
        steps_[i] = {two.x, static_cast<uint32_t>(two.y)};
        steps_[i + 1] = {two.z, static_cast<uint32_t>(two.w)};
      }
    } else {
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        const int2 one = __ldg(reinterpret_cast<const int2*>(order_ + i));
        steps_[i] = {one.x, static_cast<uint32_t>(one.y)};
      }
    }
  }

  uint32_t shared_;
  const float* window_;
  uint32_t outside_;
  const WindowStep* order_;
  WindowStep steps_[kCount];
};

/** Adjacent floats of shared memory, by one load or one each. */
template <int kFloats, bool kVectorised>
__device__ inline void loadPiece(float* registers, const float* shared) {
  if constexpr (kVectorised && kFloats == 4) {
    const float4 quad = *reinterpret_cast<const float4*>(shared);
    registers[0] = quad.x, registers[1] = quad.y, registers[2] = quad.z, registers[3] = quad.w;
  } else {
    // The compiler would join them otherwise.
    const volatile float* single = shared;
#pragma unroll
    for (int i = 0; i < kFloats; ++i) registers[i] = single[i];
  }
}

/**
 * A thread's outputs: kTile.threadM x threadN, in pieces that lie blockM / piecesM and blockN / piecesN apart. A warp
 * is 4 threads of output channels by 8 of windows. Lane bits 0, 2 and 3 are the window's, 1 and 4 the channel's: of
 * either operand's 16-byte loads every lane then has a neighbour, one or two lanes on, that reads the same address, for
 * which the hardware serves half a warp at a time instead of a quarter.
 */
template <GemmTile kTile>
class Accumulators {
 public:
  __device__ Accumulators() {
    const int lane = threadIdx.x % 32;
    const int warp = threadIdx.x / 32;
    const int laneM = (lane >> 1 & 1) | (lane >> 3 & 2);
    const int laneN = (lane & 1) | (lane >> 1 & 6);
    m_ = (warp / kWarpsN * 4 + laneM) * kPieceM;
    n_ = (warp % kWarpsN * 8 + laneN) * kPieceN;
#pragma unroll
    for (int i = 0; i < kTile.threadM; ++i) {
#pragma unroll
      for (int j = 0; j < kTile.threadN; ++j) sums_[i][j] = 0.0f;
    }
  }

  /** Outer products over the tile's blockK steps; with prefetch the next step's operands load meanwhile. */
  __device__ void addTile(const float* filters, const float* windows) {
    constexpr int kBuffers = kTile.stages > 1 ? 2 : 1;
    float a[kBuffers][kTile.threadM], b[kBuffers][kTile.threadN];
    load(a[0], b[0], filters, windows, 0);
    // Rolled without prefetch, or the compiler would prefetch.
#pragma unroll(kBuffers == 2 ? kTile.blockK : 1)
    for (int k = 0; k < kTile.blockK; ++k) {
      const int now = k % kBuffers, next = (k + 1) % kBuffers;
      if (kBuffers == 2 && k + 1 < kTile.blockK) load(a[next], b[next], filters, windows, k + 1);
      if (kBuffers == 1 && k > 0) load(a[now], b[now], filters, windows, k);
      multiply(a[now], b[now]);
    }
  }

  /**
   * One slice into shared memory, sliceM x blockN. The index of a register is static: slices are compared. Stores are
   * single, since 16-byte ones would ask for sums in adjacent registers, at the price of bank conflicts in multiply.
   */
  __device__ void writeSlice(int slice, float* shared) const {
#pragma unroll
    for (int i = 0; i < kTile.threadM; ++i) {
      if (i / kPieceM != slice) continue;
#pragma unroll
      for (int j = 0; j < kTile.threadN; ++j) {
        volatile float* const at =
            shared + (m_ + i % kPieceM) * kTile.blockN + j / kPieceN * kApartN + n_ + j % kPieceN;
        *at = sums_[i][j];
      }
    }
  }

 private:
  static constexpr int kPieceM = kTile.pieceM();
  static constexpr int kPieceN = kTile.pieceN();
  static constexpr int kApartM = kTile.sliceM();
  static constexpr int kApartN = kTile.blockN / (kTile.threadN / kPieceN);
  static constexpr int kWarpsN = kTile.blockN / kTile.threadN / 8;
  static_assert(kWarpsN * 8 * kTile.threadN == kTile.blockN && kTile.blockM % (4 * kTile.threadM) == 0);

  __device__ void load(float* a, float* b, const float* filters, const float* windows, int k) const {
#pragma unroll
    for (int i = 0; i < kTile.threadM; i += kPieceM) {
      loadPiece<kPieceM, kTile.vectorised>(a + i, filters + k * kTile.blockM + i / kPieceM * kApartM + m_);
    }
#pragma unroll
    for (int j = 0; j < kTile.threadN; j += kPieceN) {
      loadPiece<kPieceN, kTile.vectorised>(b + j, windows + k * kTile.blockN + j / kPieceN * kApartN + n_);
    }
  }

  /**
   * There and back along the windows: at each turn the operand before stays in the register file's reuse cache, which
   * together with unconstrained sums (see writeSlice) leaves few bank conflicts. 128 x 64 tiles: 1.16 cycles for a
   * multiply-add by counting reads of either bank in the disassembly for sm_90, 1.35 without both.
   */
  __device__ void multiply(const float* a, const float* b) {
#pragma unroll
    for (int i = 0; i < kTile.threadM; ++i) {
#pragma unroll
      for (int step = 0; step < kTile.threadN; ++step) {
        const int j = i % 2 == 0 ? step : kTile.threadN - 1 - step;
        sums_[i][j] = fmaf(a[i], b[j], sums_[i][j]);
      }
    }
  }

  int m_, n_;
  float sums_[kTile.threadM][kTile.threadN];
};

template <GemmTile kTile>
struct SumsOf {
  using Type = Accumulators<kTile>;
};
template <GemmTile kTile>
requires(kTile.onTensorCores()) struct SumsOf<kTile> {
  using Type = TensorSums<kTile.tensorBlock()>;
};

/**
 * One block owns blockM output channels of one group, by blockN windows, over the reduction's tiles of one split.
 * Window i is (n, p, q) with i = (n * P + p) * Q + q; step l of the reduction is (c, s, r) with
 * l = (c * S + s) * R + r. Shared memory holds kTile.stages stages of blockK x blockM filter elements and
 * blockK x blockN window elements; at the end it holds sums on their way out. Filters past the group's and windows
 * past the last are computed with zeros and not written: finishSlice masks the edges.
 */
template <int kIndex>
__global__ void __launch_bounds__(kTiles[kIndex].tile.threads(), kTiles[kIndex].tile.blocksPerMultiprocessor)
    im2winGemm(const __grid_constant__ GemmArguments x) {
  constexpr GemmTile kTile = kTiles[kIndex].tile;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
  // Refused there; nothing is compiled of it.
  if constexpr (kTile.onTensorCores()) return;
#endif
  constexpr int kStages = kTile.stages;
  constexpr int kFilters = kTile.blockK * kTile.pitchM();
  constexpr int kStageBytes = kTile.stageFloats() * 4;
  extern __shared__ float4 memory[];
  float* const shared = reinterpret_cast<float*>(memory);

  // Lets the sum's blocks become resident, which wait for this grid's end.
  if (x.sumFollows) letNextKernelBegin();
  const BlockPlace place = placeOf<kTile>(x, static_cast<int>(blockIdx.x));
  const int firstTile = place.split * x.tilesPerSplit;
  const int tiles = min(x.tilesPerSplit, x.tiles - firstTile);
  WindowCopies<kTile> windows(x, place, firstTile * kTile.blockK, sharedAddress(shared + kFilters));
  FilterCopies<kTile> filters(x, place, firstTile * kTile.blockK, sharedAddress(shared), threadIdx.x);
  typename SumsOf<kTile>::Type sums;

  const auto copyTile = [&](int stage) {
    filters.copyTile(stage);
    windows.copyTile(stage);
    commitCopies();
  };
  const auto addTile = [&](int stage) { sums.addTile(shared + stage / 4, shared + stage / 4 + kFilters); };

  if constexpr (kStages == 1) {
    waitForKernelsBefore();
    for (int tile = 0; tile < tiles; ++tile) {
      copyTile(0);
      waitForCopies<0>();
      __syncthreads();
      addTile(0);
      __syncthreads();
    }
  } else {
    // Filters are the plan's own, which no kernel before can be writing.
    for (int ahead = 0; ahead < min(kStages - 1, tiles); ++ahead) filters.copyTile(ahead * kStageBytes);
    waitForKernelsBefore();
    // A group a tile, empty ones too, so that their count says which tiles have arrived.
    for (int ahead = 0; ahead < kStages - 1; ++ahead) {
      if (ahead < tiles) windows.copyTile(ahead * kStageBytes);
      commitCopies();
    }
    int stage = 0;
    int freeStage = (kStages - 1) * kStageBytes;
    for (int tile = 0; tile < tiles; ++tile) {
      waitForCopies<kStages - 2>();
      // Everyone's copies of this tile are there, and everyone is done with the stage that was read last.
      __syncthreads();
      if (tile + kStages - 1 < tiles) {
        copyTile(freeStage);
      } else {
        // Not earlier: blocks of the next kernel would crowd on the multiprocessors that have none of this one.
        letNextKernelBegin();
        commitCopies();
      }
      addTile(stage);
      freeStage = stage;
      stage = stage == (kStages - 1) * kStageBytes ? 0 : stage + kStageBytes;
    }
  }

#pragma unroll 1
  for (int slice = 0; slice < kTile.blockM / kTile.sliceM(); ++slice) {
    synchroniseThreads<kTile>();
    if constexpr (kTile.onTensorCores()) {
      const bool finite = sums.write(shared);
      if (synchroniseAny<kTile>(!finite)) {
        sumNonFiniteAgain<kTile>(x, place, shared, firstTile * kTile.blockK, tiles * kTile.blockK);
      }
    } else {
      sums.writeSlice(slice, shared);
    }
    finishSlice<kTile>(x, place, shared, slice);
  }
}

template <int kIndex>
GemmKernel gemmKernel() {
  return im2winGemm<kIndex>;
}

}  // namespace warpconv::cuda::im2win
