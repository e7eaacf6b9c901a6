#pragma once

#include "cuda/epilogue/finite_check.cuh"
#include "cuda/kernel/adjacent.cuh"
#include "cuda/tensor_core/tensor_block.h"
#include "cuda/tensor_core/tensor_core.cuh"

namespace warpconv::cuda {

/**
 * A thread's part of a block's sums, products of TF32 pairs low * high, high * low and high * high making up a product
 * of float32. Which row of a matrix stands for which row of the operands, and which column for which column, is free:
 * with g = lane / 4 and t = lane % 4, a thread reads rows g * pieceM + i and columns g * pieceN + j, one access for
 * each of the steps t and t + 4.
 *
 * Tensor cores truncate sums, which adds up where all have the same sign. So a matrix product begins with zeros and
 * covers eight steps, and is added to the sums that are kept by ordinary, rounded additions: on positive data the error
 * was 0.7 times that of a sequential float32 sum over 64 steps, and 2 to 5 times it with 16 and 32 steps a product.
 *
 * Sums that are not finite may be wrong, and whoever writes them makes them again: the low half of an infinite number
 * is NaN, and infinite high halves meet low halves of zero, where the plain sum may be infinite. They hide nothing,
 * since any product with NaN is NaN, and what once is not finite is not finite at the end.
 */
template <TensorBlock kBlock>
class TensorSums {
 public:
  /** Whose operands a thread reads */
  static constexpr int kColumns = kBlock.threadN / 2;

  __device__ TensorSums() {
    const int lane = threadIdx.x % 32;
    const int warp = threadIdx.x / 32;
    g_ = lane / 4;
    t_ = lane % 4;
    part_ = warp / (kBlock.warpsM() * kBlock.warpsN());
    warpM_ = warp / kBlock.warpsN() % kBlock.warpsM() * kBlock.warpM();
    warpN_ = warp % kBlock.warpsN() * kBlock.warpN();
  }

  /** Of the stage's steps, those that are this warp's. */
  __device__ void addTile(const float* a, const float* b) {
    const int first = part_ * kOwnK;
    a = ownRows(a + first * kBlock.pitchM());
    b += (first + t_) * kBlock.pitchN() + firstColumn();
#pragma unroll
    for (int k = 0; k < kOwnK; k += 8) addSteps(a + k * kBlock.pitchM(), b + k * kBlock.pitchN());
  }

  /** This warp's part of the steps; the first of four rows and of the columns that this thread reads. */
  __device__ int part() const { return part_; }
  __device__ int firstStep() const { return t_; }
  __device__ int firstColumn() const { return warpN_ + g_ * kPieceN; }

  /** Where the rows of this thread are of those at `a`, of whose eight steps it has two: t and t + 4. */
  __device__ const float* ownRows(const float* a) const { return a + t_ * kBlock.pitchM() + warpM_ + g_ * kPieceM; }

  /**
   * Adds the products of eight steps: rows at ownRows() of them, and of the columns, elements of its two steps. So many
   * columns of matrices are under way at a time, that one's latency passes while others begin.
   */
  template <int kTogether>
  __device__ void addEight(const float* a, const float (&columns)[2][kColumns]) {
    uint32_t aHigh[kMatricesM][4], aLow[kMatricesM][4], bHigh[kMatricesN][2], bLow[kMatricesN][2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float rows[kBlock.threadM];
#pragma unroll
      for (int i = 0; i < kBlock.threadM; i += kPieceM) {
        loadAdjacent<kPieceM>(rows + i, a + half * 4 * kBlock.pitchM() + 8 * i);
      }
#pragma unroll
      for (int i = 0; i < kBlock.threadM; ++i) {
        const Tf32Pair pair = splitTf32(rows[i]);
        aHigh[i / 2][2 * half + i % 2] = pair.high;
        aLow[i / 2][2 * half + i % 2] = pair.low;
      }
#pragma unroll
      for (int j = 0; j < kMatricesN; ++j) {
        const Tf32Pair pair = splitTf32(columns[half][j]);
        bHigh[j][half] = pair.high;
        bLow[j][half] = pair.low;
      }
    }
#pragma unroll
    for (int first = 0; first < kMatricesN; first += kTogether) {
      float products[kTogether][kMatricesM][4];
      const auto forEach = [&](auto&& visit) {
#pragma unroll
        for (int j = 0; j < kTogether; ++j) {
#pragma unroll
          for (int i = 0; i < kMatricesM; ++i) visit(i, first + j, products[j][i]);
        }
      };
      forEach([&](int i, int j, float(&product)[4]) { multiplyTf32(product, aLow[i], bHigh[j]); });
      forEach([&](int i, int j, float(&product)[4]) { multiplyAddTf32(product, aHigh[i], bLow[j]); });
      forEach([&](int i, int j, float(&product)[4]) { multiplyAddTf32(product, aHigh[i], bHigh[j]); });
      forEach([&](int i, int j, float(&product)[4]) {
#pragma unroll
        for (int e = 0; e < 4; ++e) sums_[2 * i + e / 2][e % 2][j] += product[e];
      });
    }
  }

  /** Into shared memory as [part][m][n]. Says whether all sums of this thread are finite. */
  __device__ bool write(float* shared) const {
    FiniteCheck finite;
    float* const own = shared + (part_ * kBlock.m + warpM_ + g_ * kPieceM) * kBlock.n + warpN_ + 2 * t_ * kPieceN;
#pragma unroll
    for (int i = 0; i < kBlock.threadM; ++i) {
#pragma unroll
      for (int column = 0; column < 2; ++column) {
#pragma unroll
        for (int j = 0; j < kMatricesN; j += kPieceN) {
          float* const at = own + (i / kPieceM * 8 * kPieceM + i % kPieceM) * kBlock.n + j * 8 + column * kPieceN;
          const float* const sums = sums_[i][column] + j;
          storeAdjacent<kPieceN>(at, sums);
#pragma unroll
          for (int jj = 0; jj < kPieceN; ++jj) finite.add(sums[jj]);
        }
      }
    }
    return finite.holds();
  }

 private:
  static constexpr int kPieceM = kBlock.pieceM();
  static constexpr int kPieceN = kBlock.pieceN();
  static constexpr int kOwnK = kBlock.k / kBlock.parts;
  /** 16 x 8 matrices */
  static constexpr int kMatricesM = kBlock.threadM / 2;
  static constexpr int kMatricesN = kColumns;
  /** Under way at a time where steps come from shared memory, and registers are few */
  static constexpr int kTogether = kMatricesM >= 4 ? 1 : 4 / kMatricesM;
  static_assert(kBlock.warpsM() * kBlock.warpM() == kBlock.m && kBlock.warpsN() * kBlock.warpN() == kBlock.n);
  static_assert(kOwnK * kBlock.parts == kBlock.k && kOwnK % 8 == 0 && kMatricesN % kTogether == 0);

  __device__ void addSteps(const float* a, const float* b) {
    float columns[2][kColumns];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int j = 0; j < kColumns; j += kPieceN) {
        loadAdjacent<kPieceN>(columns[half] + j, b + half * 4 * kBlock.pitchN() + 8 * j);
      }
    }
    addEight<kTogether>(a, columns);
  }

  int g_, t_, part_, warpM_, warpN_;
  /** Of row i, and of the j-th of the columns whose operands the threads 2 t and 2 t + 1 read */
  float sums_[kBlock.threadM][2][kMatricesN] = {};
};

}  // namespace warpconv::cuda
