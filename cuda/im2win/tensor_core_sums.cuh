#pragma once

#include "cuda/im2win/places.cuh"
#include "cuda/tensor_core.cuh"

namespace warpconv::cuda::im2win {

/** kFloats adjacent floats of shared memory, by one load. */
template <int kFloats>
__device__ inline void loadAdjacent(float* registers, const float* shared) {
  if constexpr (kFloats == 4) {
    const float4 quad = *reinterpret_cast<const float4*>(shared);
    registers[0] = quad.x, registers[1] = quad.y, registers[2] = quad.z, registers[3] = quad.w;
  } else {
    static_assert(kFloats == 2);
    const float2 pair = *reinterpret_cast<const float2*>(shared);
    registers[0] = pair.x, registers[1] = pair.y;
  }
}

/**
 * A thread's sums as tensor cores make them: of an 8 * threadM x 4 * threadN patch for each warp, in which products of
 * TF32 pairs low * high, high * low and high * high make up a product of float32. Which row of a matrix stands for
 * which output channel, and which column for which window, is free: with g = lane / 4 and t = lane % 4, a thread has
 * the operands of channels g * pieceM + i and windows g * pieceN + j, one load for each of the steps t and t + 4.
 *
 * Tensor cores truncate sums, which adds up where all have the same sign. So a matrix product begins with zeros and
 * covers eight steps, and is added to the sums that are kept by ordinary, rounded additions: on positive data the error
 * was 0.7 times that of a sequential float32 sum over 64 steps, and 2 to 5 times it with 16 and 32 steps a product.
 */
template <GemmTile kTile>
class TensorCoreSums {
 public:
  __device__ TensorCoreSums() {
    const int lane = threadIdx.x % 32;
    const int warp = threadIdx.x / 32;
    g_ = lane / 4;
    t_ = lane % 4;
    part_ = warp / (kWarpsM * kWarpsN);
    warpM_ = warp / kWarpsN % kWarpsM * kWarpM;
    warpN_ = warp % kWarpsN * kWarpN;
  }

  /** Of the tile's blockK steps, those that are this warp's. */
  __device__ void addTile(const float* filters, const float* windows) {
    const int first = part_ * kOwnK + t_;
    filters += first * kTile.pitchM() + warpM_ + g_ * kPieceM;
    windows += first * kTile.pitchN() + warpN_ + g_ * kPieceN;
#pragma unroll
    for (int k = 0; k < kOwnK; k += 8) addSteps(filters + k * kTile.pitchM(), windows + k * kTile.pitchN());
  }

  /**
   * One slice into shared memory, sliceM x blockN; all threads call it. Says whether all those of its sums are finite
   * that this thread was the last to add to.
   */
  __device__ bool writeSlice(int slice, float* shared) const {
    const int row = warpM_ - slice * kTile.sliceM() + g_ * kPieceM;
    const bool isMine = warpM_ / kTile.sliceM() == slice;
    bool finite = true;
#pragma unroll
    for (int part = 0; part < kTile.partsK; ++part) {
      if (part > 0) __syncthreads();
      if (part != part_ || !isMine) continue;
      finite = addSlice(part > 0, shared + row * kTile.blockN + warpN_ + 2 * t_ * kPieceN);
    }
    return finite;
  }

 private:
  static constexpr int kPieceM = kTile.pieceM();
  static constexpr int kPieceN = kTile.pieceN();
  static constexpr int kWarpM = 8 * kTile.threadM;
  static constexpr int kWarpN = 4 * kTile.threadN;
  static constexpr int kWarpsM = kTile.blockM / kWarpM;
  static constexpr int kWarpsN = kTile.blockN / kWarpN;
  static constexpr int kOwnK = kTile.blockK / kTile.partsK;
  /** 16 x 8 matrices */
  static constexpr int kMatricesM = kTile.threadM / 2;
  static constexpr int kMatricesN = kTile.threadN / 2;
  /** Of which so many columns are under way at a time, so that one's latency passes while others begin */
  static constexpr int kTogether = kMatricesM >= 4 ? 1 : 4 / kMatricesM;
  static_assert(kWarpsM * kWarpM == kTile.blockM && kWarpsN * kWarpN == kTile.blockN && kOwnK % 8 == 0);
  static_assert(kMatricesN % kTogether == 0 && kTile.sliceM() % kWarpM == 0);

  __device__ void addSteps(const float* filters, const float* windows) {
    uint32_t aHigh[kMatricesM][4], aLow[kMatricesM][4], bHigh[kMatricesN][2], bLow[kMatricesN][2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float a[kTile.threadM], b[kMatricesN];
#pragma unroll
      for (int i = 0; i < kTile.threadM; i += kPieceM) {
        loadAdjacent<kPieceM>(a + i, filters + half * 4 * kTile.pitchM() + 8 * i);
      }
#pragma unroll
      for (int j = 0; j < kMatricesN; j += kPieceN) {
        loadAdjacent<kPieceN>(b + j, windows + half * 4 * kTile.pitchN() + 8 * j);
      }
#pragma unroll
      for (int i = 0; i < kTile.threadM; ++i) {
        const Tf32Pair pair = splitTf32(a[i]);
        aHigh[i / 2][2 * half + i % 2] = pair.high;
        aLow[i / 2][2 * half + i % 2] = pair.low;
      }
#pragma unroll
      for (int j = 0; j < kMatricesN; ++j) {
        const Tf32Pair pair = splitTf32(b[j]);
        bHigh[j][half] = pair.high;
        bLow[j][half] = pair.low;
      }
    }
#pragma unroll
    for (int first = 0; first < kMatricesN; first += kTogether) {
      float products[kTogether][kMatricesM][4] = {};
      const auto forEach = [&](auto&& visit) {
#pragma unroll
        for (int j = 0; j < kTogether; ++j) {
#pragma unroll
          for (int i = 0; i < kMatricesM; ++i) visit(i, first + j, products[j][i]);
        }
      };
      forEach([&](int i, int j, float(&product)[4]) { multiplyAddTf32(product, aLow[i], bHigh[j]); });
      forEach([&](int i, int j, float(&product)[4]) { multiplyAddTf32(product, aHigh[i], bLow[j]); });
      forEach([&](int i, int j, float(&product)[4]) { multiplyAddTf32(product, aHigh[i], bHigh[j]); });
      forEach([&](int i, int j, float(&product)[4]) {
#pragma unroll
        for (int e = 0; e < 4; ++e) sums_[2 * i + e / 2][e % 2][j] += product[e];
      });
    }
  }

  /** Writes this thread's sums, or adds them to what is there; says whether what is there then is finite. */
  __device__ bool addSlice(bool adds, float* shared) const {
    bool finite = true;
#pragma unroll
    for (int i = 0; i < kTile.threadM; ++i) {
#pragma unroll
      for (int column = 0; column < 2; ++column) {
#pragma unroll
        for (int j = 0; j < kMatricesN; ++j) {
          const int n = j / kPieceN * 8 * kPieceN + column * kPieceN + j % kPieceN;
          float* const at = shared + (i / kPieceM * 8 * kPieceM + i % kPieceM) * kTile.blockN + n;
          const float sum = adds ? *at + sums_[i][column][j] : sums_[i][column][j];
          finite &= isfinite(sum);
          *at = sum;
        }
      }
    }
    return finite;
  }

  int g_, t_, part_, warpM_, warpN_;
  /** Of channel i, and of window j of those of the columns 2 t and 2 t + 1 */
  float sums_[kTile.threadM][2][kMatricesN] = {};
};

/**
 * Sums those of a slice again, by multiply-adds in the order of the reduction, that are not finite. Tensor cores make
 * NaN of them where the plain sum may be infinite: the low part of infinity is NaN, and an infinite high part times a
 * low part of zero is, too. They hide nothing, since a NaN or an infinite number has a low part of NaN, whose products
 * are NaN whatever they are multiplied by; and what once is NaN or infinite is not finite at the end of the sum.
 */
template <GemmTile kTile>
__device__ void sumNonFiniteAgain(const GemmArguments& x, const BlockPlace& place, float* shared, int slice,
                                  int firstStep, int steps) {
  const int firstOutput = place.m0 + slice * kTile.sliceM();
#pragma unroll 1
  for (int i = threadIdx.x; i < kTile.sliceM() * kTile.blockN; i += kTile.threads()) {
    const int output = firstOutput + i / kTile.blockN;
    if (isfinite(shared[i]) || output >= x.groupOutputs) continue;
    const Window window = windowAt(x, place.group, place.n0 + i % kTile.blockN);
    const float* filter = x.filter + place.group * x.filterGroupStride + firstStep * x.filterPitch + output;
    float sum = 0.0f;
#pragma unroll 1
    for (const WindowStep *step = x.order + firstStep, *end = step + steps; step != end; ++step) {
      if ((step->bits & window.outside) == 0) sum = fmaf(*filter, window.first[step->offset], sum);
      filter += x.filterPitch;
    }
    shared[i] = sum;
  }
}

}  // namespace warpconv::cuda::im2win
