#include <algorithm>
#include <cstdint>

#include "cuda/epilogue/epilogue.cuh"
#include "cuda/epilogue/finish_in_turn.cuh"
#include "cuda/operators/elementwise_code.h"
#include "cuda/operators/launch.cuh"
#include "cuda/operators/operators.h"
#include "cuda/operators/strided.h"

namespace warpconv::cuda::operators {
namespace {

constexpr int kWarp = 32;

/** A MatmulStep in the 32-bit integers that kernels compute with. */
struct Product {
  const float* left;
  const float* right;
  const float* bias;
  float* output;
  int m, n, k;
  int leftRow, leftColumn, rightRow, rightColumn, biasRow, biasColumn;
  /** Where the matrices of left, right and bias begin */
  Strided<3> batch;
  float alpha, beta;
  BoundedActivation activation;
  /** Of the kernel's units of work, columns before rows before matrices */
  FastDivisor columnUnits, rowUnits;
};

/** One unit of work, and the matrices that it belongs to. */
struct Unit {
  int row, column;
  const float* left;
  const float* right;
  const float* bias;
  float* output;
};

__device__ Unit findUnit(const Product& x, int index) {
  Unit unit;
  unit.column = index;
  unit.row = x.columnUnits.divide(unit.column);
  const int matrix = x.rowUnits.divide(unit.row);
  int offsets[3];
  x.batch.find(matrix, offsets);
  unit.left = x.left + offsets[0];
  unit.right = x.right + offsets[1];
  unit.bias = x.bias == nullptr ? nullptr : x.bias + offsets[2];
  unit.output = x.output + int64_t{matrix} * x.m * x.n;
  return unit;
}

__device__ void store(const Product& x, const Unit& unit, int row, int column, float sum) {
  float value = x.alpha * sum;
  if (unit.bias != nullptr) value += x.beta * unit.bias[row * x.biasRow + column * x.biasColumn];
  unit.output[row * x.n + column] = activate(value, x.activation);
}

constexpr int kDepth = 16;

/** One side's part of a tile: `kTile` rows of the left matrix, or columns of the right, by kDepth steps along k. */
template <int kTile, int kBlockThreads>
class Side {
 public:
  using Shared = float[kDepth][kTile + 4];
  static constexpr int kElements = kTile * kDepth / kBlockThreads;

  /** Element (i, k) of the side is data[i * stride + k * depthStride], for i < extent and k < depth. */
  __device__ Side(const float* data, int first, int extent, int stride, int depth, int depthStride)
      : data_(data), extent_(extent - first), depth_(depth), stride_(stride), depthStride_(depthStride) {
    const int thread = static_cast<int>(threadIdx.x);
    // Neighbouring threads read neighbouring elements, whichever way they lie.
    const bool alongDepth = depthStride == 1;
    i_ = alongDepth ? thread / kDepth : thread % kTile;
    k_ = alongDepth ? thread % kDepth : thread / kTile;
    iApart_ = alongDepth ? kBlockThreads / kDepth : 0;
    kApart_ = alongDepth ? 0 : kBlockThreads / kTile;
    data_ += int64_t{first} * stride;
  }

  /** Elements that do not exist are zeros. */
  __device__ void fetch(int step) {
#pragma unroll
    for (int e = 0; e < kElements; ++e) {
      const int i = i_ + e * iApart_, k = step * kDepth + k_ + e * kApart_;
      fetched_[e] = i < extent_ && k < depth_ ? data_[i * stride_ + k * depthStride_] : 0.0f;
    }
  }
  __device__ void put(Shared& shared) const {
#pragma unroll
    for (int e = 0; e < kElements; ++e) shared[k_ + e * kApart_][i_ + e * iApart_] = fetched_[e];
  }

 private:
  const float* data_;
  int extent_, depth_, stride_, depthStride_;
  int i_, k_, iApart_, kApart_;
  float fetched_[kElements];
};

/** A thread's rows or columns of a tile: pieces of up to four neighbours, one from each part of the tile. */
template <int kTile, int kOwn>
struct Pieces {
  static constexpr int kPiece = kOwn < 4 ? kOwn : 4;
  static constexpr int kApart = kTile / (kOwn / kPiece);
  static __device__ int place(int thread, int own) { return own / kPiece * kApart + thread * kPiece + own % kPiece; }
  static __device__ void load(const float* shared, int thread, float (&values)[kOwn]) {
#pragma unroll
    for (int own = 0; own < kOwn; own += kPiece) {
      const auto piece = *reinterpret_cast<const Pack<kPiece>*>(shared + place(thread, own));
#pragma unroll
      for (int i = 0; i < kPiece; ++i) values[own + i] = piece.lane[i];
    }
  }
};

/**
 * A block owns the outputs of a tile of kTileM x kTileN, a thread kThreadM x kThreadN of them. Shared memory holds
 * kDepth steps of both sides along k, twice: one half is multiplied while the next steps are read into registers and
 * put into the other. Beyond the matrices both sides are zeros along k; what lies beyond m and n is not stored.
 */
template <int kTileM, int kTileN, int kThreadM, int kThreadN>
__global__ void __launch_bounds__(kTileM / kThreadM * (kTileN / kThreadN))
    tileKernel(const __grid_constant__ Product x) {
  beginStep();
  constexpr int kColumns = kTileN / kThreadN, kBlockThreads = kTileM / kThreadM * kColumns;
  using Left = Side<kTileM, kBlockThreads>;
  using Right = Side<kTileN, kBlockThreads>;
  using Rows = Pieces<kTileM, kThreadM>;
  using Columns = Pieces<kTileN, kThreadN>;
  __shared__ __align__(16) typename Left::Shared leftShared[2];
  __shared__ __align__(16) typename Right::Shared rightShared[2];
  const Unit unit = findUnit(x, static_cast<int>(blockIdx.x));
  const int firstRow = unit.row * kTileM, firstColumn = unit.column * kTileN;
  const int threadRow = static_cast<int>(threadIdx.x) / kColumns,
            threadColumn = static_cast<int>(threadIdx.x) % kColumns;
  Left left(unit.left, firstRow, x.m, x.leftRow, x.k, x.leftColumn);
  Right right(unit.right, firstColumn, x.n, x.rightColumn, x.k, x.rightRow);
  float sums[kThreadM][kThreadN]{};

  left.fetch(0), right.fetch(0);
  left.put(leftShared[0]), right.put(rightShared[0]);
  __syncthreads();
  const int steps = (x.k + kDepth - 1) / kDepth;
  for (int step = 0; step < steps; ++step) {
    const bool hasNext = step + 1 < steps;
    if (hasNext) left.fetch(step + 1), right.fetch(step + 1);
#pragma unroll
    for (int k = 0; k < kDepth; ++k) {
      float a[kThreadM], b[kThreadN];
      Rows::load(leftShared[step % 2][k], threadRow, a);
      Columns::load(rightShared[step % 2][k], threadColumn, b);
#pragma unroll
      for (int i = 0; i < kThreadM; ++i) {
#pragma unroll
        for (int j = 0; j < kThreadN; ++j) sums[i][j] = fmaf(a[i], b[j], sums[i][j]);
      }
    }
    if (hasNext) left.put(leftShared[(step + 1) % 2]), right.put(rightShared[(step + 1) % 2]);
    __syncthreads();
  }
  finishInTurn(sums, [&](int i, const float(&row)[kThreadN]) {
    const int m = firstRow + Rows::place(threadRow, i);
    if (m >= x.m) return;
#pragma unroll
    for (int j = 0; j < kThreadN; ++j) {
      const int n = firstColumn + Columns::place(threadColumn, j);
      if (n < x.n) store(x, unit, m, n, row[j]);
    }
  });
}

__device__ float sumOfWarp(float own) {
#pragma unroll
  for (int apart = kWarp / 2; apart > 0; apart /= 2) own += __shfl_xor_sync(0xffffffffu, own, apart);
  return own;
}

/** Rows that one reading of the right matrix serves. */
constexpr int kMostRows = 8;

/** Rows beyond m are the last one again, so that nothing beyond the matrix is read; they are not stored. */
template <int kRows>
__device__ void rowOffsets(const Product& x, int first, int (&offsets)[kRows]) {
#pragma unroll
  for (int i = 0; i < kRows; ++i) offsets[i] = min(first + i, x.m - 1) * x.leftRow;
}

/**
 * For few rows, and columns of the right matrix that lie in one piece: a warp owns one column of kRows rows, and lane l
 * has the packs l, l + 32, … of it, so that the right matrix is read once, in long runs.
 */
template <int kRows, int kWidth>
__global__ void __launch_bounds__(kThreads) columnKernel(const __grid_constant__ Product x, int units) {
  beginStep();
  const int index = static_cast<int>(pieceOfThread() / kWarp);
  if (index >= units) return;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const Unit unit = findUnit(x, index);
  int rows[kRows];
  rowOffsets(x, unit.row * kRows, rows);
  const float* column = unit.right + unit.column * x.rightColumn;
  float sums[kRows]{};
#pragma unroll 4
  for (int k = lane * kWidth; k < x.k; k += kWarp * kWidth) {
    const auto right = *reinterpret_cast<const Pack<kWidth>*>(column + k);
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const auto left = *reinterpret_cast<const Pack<kWidth>*>(unit.left + (rows[i] + k * x.leftColumn));
#pragma unroll
      for (int l = 0; l < kWidth; ++l) sums[i] = fmaf(left.lane[l], right.lane[l], sums[i]);
    }
  }
  float own = 0.0f;
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    const float sum = sumOfWarp(sums[i]);
    if (lane == i) own = sum;
  }
  const int row = unit.row * kRows + lane;
  if (lane < kRows && row < x.m) store(x, unit, row, unit.column, own);
}

constexpr int kSlices = 32;

/**
 * For few rows, and rows of the right matrix that lie in one piece: a block owns 32 columns of kRows rows. Thread t has
 * column t % 32, and of the steps along k every 32nd from t / 32 on; shared memory turns what the slices have summed,
 * row by row, so that a warp adds up what belongs to one column.
 */
template <int kRows>
__global__ void __launch_bounds__(kWarp* kSlices) sliceKernel(const __grid_constant__ Product x) {
  beginStep();
  __shared__ float partial[kSlices][kWarp + 1];
  const int lane = static_cast<int>(threadIdx.x) % kWarp, slice = static_cast<int>(threadIdx.x) / kWarp;
  const Unit unit = findUnit(x, static_cast<int>(blockIdx.x));
  int rows[kRows];
  rowOffsets(x, unit.row * kRows, rows);
  const int firstColumn = unit.column * kWarp;
  const bool exists = firstColumn + lane < x.n;
  const float* column = unit.right + firstColumn + lane;
  float sums[kRows]{};
#pragma unroll 4
  for (int k = slice; k < x.k; k += kSlices) {
    const float right = exists ? column[k * x.rightRow] : 0.0f;
#pragma unroll
    for (int i = 0; i < kRows; ++i) sums[i] = fmaf(unit.left[rows[i] + k * x.leftColumn], right, sums[i]);
  }
  float own = 0.0f;
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    partial[slice][lane] = sums[i];
    __syncthreads();
    const float sum = sumOfWarp(partial[lane][slice]);
    if (lane == i) own = sum;
    __syncthreads();
  }
  const int row = unit.row * kRows + lane, columnOfWarp = firstColumn + slice;
  if (lane < kRows && row < x.m && columnOfWarp < x.n) store(x, unit, row, columnOfWarp, own);
}

int ceilDivide(int64_t a, int b) { return static_cast<int>((a + b - 1) / b); }

Product productOf(const MatmulStep& step, const float* left, const float* right, const float* bias, float* output) {
  const size_t rows = step.batch.size(), columns = rows + 1;
  const auto narrow = [](int64_t value) { return static_cast<int>(value); };
  Product x{left,
            right,
            bias,
            output,
            narrow(step.m),
            narrow(step.n),
            narrow(step.k),
            narrow(step.leftStrides[rows]),
            narrow(step.leftStrides[columns]),
            narrow(step.rightStrides[rows]),
            narrow(step.rightStrides[columns]),
            0,
            0,
            {},
            static_cast<float>(step.alpha),
            static_cast<float>(step.beta),
            step.activation,
            {},
            {}};
  const bool adds = bias != nullptr;
  if (adds) x.biasRow = narrow(step.biasStrides[rows]), x.biasColumn = narrow(step.biasStrides[columns]);
  for (size_t axis = 0; axis < rows; ++axis) {
    x.batch.append(step.batch[axis],
                   {step.leftStrides[axis], step.rightStrides[axis], adds ? step.biasStrides[axis] : 0});
  }
  return x;
}

/** How many units of so many rows and columns there are. */
int64_t cut(Product& x, int rows, int columns) {
  const int columnUnits = ceilDivide(x.n, columns), rowUnits = ceilDivide(x.m, rows);
  x.columnUnits = FastDivisor(columnUnits), x.rowUnits = FastDivisor(rowUnits);
  return int64_t{columnUnits} * rowUnits * x.batch.count;
}

Launch gridOf(int64_t blocks, int threads) { return {static_cast<unsigned>(blocks), static_cast<unsigned>(threads)}; }

template <int kTile, int kOwn>
Status launchTiles(Product& x, cudaStream_t stream) {
  constexpr int kBlockThreads = kTile / kOwn * (kTile / kOwn);
  return launch("matmul", tileKernel<kTile, kTile, kOwn, kOwn>, gridOf(cut(x, kTile, kTile), kBlockThreads), stream, x);
}

/** Whether both sides of every column can be read 16 bytes at a time. */
bool takesPacks(const Product& x) {
  const auto isAligned = [](const float* data) { return reinterpret_cast<uintptr_t>(data) % 16 == 0; };
  const auto fits = [](int stride) { return stride % 4 == 0; };
  const int* const leftBatch = x.batch.strides[0];
  const int* const rightBatch = x.batch.strides[1];
  return isAligned(x.left) && isAligned(x.right) && x.leftColumn == 1 && x.k % 4 == 0 && fits(x.leftRow) &&
         fits(x.rightColumn) && std::all_of(leftBatch, leftBatch + x.batch.axes, fits) &&
         std::all_of(rightBatch, rightBatch + x.batch.axes, fits);
}

template <int kRows>
Status launchFewRows(Product& x, cudaStream_t stream) {
  if (x.rightRow != 1) {
    return launch("matmul", sliceKernel<kRows>, gridOf(cut(x, kRows, kWarp), kWarp * kSlices), stream, x);
  }
  const int64_t units = cut(x, kRows, 1);
  const auto kernel = takesPacks(x) ? columnKernel<kRows, 4> : columnKernel<kRows, 1>;
  return launch("matmul", kernel, gridFor(units * kWarp), stream, x, static_cast<int>(units));
}

}  // namespace

Status matmul(const MatmulStep& step, const float* left, const float* right, const float* bias, float* output,
              int multiprocessors, cudaStream_t stream) {
  if (step.m == 0 || step.n == 0) return {};
  Product x = productOf(step, left, right, bias, output);
  if (x.batch.count == 0) return {};
  // A tile of 32 rows would have few blocks then, each with a long way along k; the right matrix, read from the L2
  // cache again for every kMostRows rows, is the lesser evil.
  constexpr int kFewRows = 32, kLongEnough = 64;
  if (x.m <= kFewRows && x.k >= kLongEnough && (x.rightRow == 1 || x.rightColumn == 1)) {
    if (x.m == 1) return launchFewRows<1>(x, stream);
    if (x.m == 2) return launchFewRows<2>(x, stream);
    return x.m <= 4 ? launchFewRows<4>(x, stream) : launchFewRows<kMostRows>(x, stream);
  }
  // The largest tiles do the most for each element read, where there are enough of them to occupy the device.
  if (cut(x, 128, 128) >= multiprocessors) return launchTiles<128, 8>(x, stream);
  if (cut(x, 64, 64) >= multiprocessors) return launchTiles<64, 4>(x, stream);
  return launchTiles<32, 2>(x, stream);
}

}  // namespace warpconv::cuda::operators
