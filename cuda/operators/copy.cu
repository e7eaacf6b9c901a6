#include "cuda/operators/copy_plan.h"
#include "cuda/operators/launch.cuh"
#include "cuda/operators/operators.h"
#include "cuda/operators/words.cuh"

namespace warpconv::cuda::operators {
namespace {

/**
 * Thread i of the grid moves words i + j * threads for j < kWords, in the order in which the output has them. All of
 * them are read before the first is written.
 */
template <typename Word, int kWords>
__global__ void __launch_bounds__(kThreads)
    copyKernel(const __grid_constant__ Strided<2> positions, const Word* input, Word* output) {
  beginStep();
  const int first = static_cast<int>(pieceOfThread()), threads = static_cast<int>(gridDim.x) * kThreads;
  Word words[kWords];
  int to[kWords];
#pragma unroll
  for (int j = 0; j < kWords; ++j) {
    if (first + j * threads >= positions.count) continue;
    int offsets[2];
    positions.find(first + j * threads, offsets);
    words[j] = input[offsets[0]];
    to[j] = offsets[1];
  }
#pragma unroll
  for (int j = 0; j < kWords; ++j) {
    if (first + j * threads < positions.count) output[to[j]] = words[j];
  }
}

/**
 * Block b owns a tile of kTile rows and columns: columns tile b % columnTiles, rows tile b / columnTiles % rowTiles of
 * matrix b / (columnTiles * rowTiles). Thread (x, y) = (t % kTile, t / kTile) reads row x of every eighth column from y
 * on, and writes column x of every eighth row from y on, so that neighbouring threads have neighbours on both sides.
 * Shared memory holds the tile, shifted by a word with each column, which keeps both sides' threads in different banks.
 * Rows and columns beyond the matrix are neither read nor written.
 */
template <typename Word>
__global__ void __launch_bounds__(kThreads)
    transposeKernel(const __grid_constant__ Transpose x, const Word* input, Word* output) {
  beginStep();
  constexpr int kTile = Transpose::kTile, kApart = kThreads / kTile;
  __shared__ Word tile[kTile][kTile + 1];
  int column = static_cast<int>(blockIdx.x);
  int row = x.columnTiles.divide(column);
  const int matrix = x.rowTiles.divide(row);
  column *= kTile, row *= kTile;
  int offsets[2];
  x.matrices.find(matrix, offsets);
  const int near = static_cast<int>(threadIdx.x) % kTile, far = static_cast<int>(threadIdx.x) / kTile;
  for (int c = far; c < kTile && column + c < x.columns; c += kApart) {
    if (row + near < x.rows) tile[c][near] = input[offsets[0] + (column + c) * x.columnStride + row + near];
  }
  __syncthreads();
  for (int r = far; r < kTile && row + r < x.rows; r += kApart) {
    if (column + near < x.columns) output[offsets[1] + (row + r) * x.rowStride + column + near] = tile[near][r];
  }
}

__global__ void __launch_bounds__(kThreads) fillKernel(int count, float value, float* output) {
  beginStep();
  const unsigned i = pieceOfThread();
  if (i < static_cast<unsigned>(count)) output[i] = value;
}

/** Of words that threads have one each; where there are more, several of a thread are on their way at once. */
constexpr int64_t kFewWords = 1 << 18;
constexpr int kManyWords = 4;

template <typename Word>
Status launchCopy(const CopyPlan& plan, const void* input, void* output, cudaStream_t stream) {
  const auto* from = static_cast<const Word*>(input);
  auto* to = static_cast<Word*>(output);
  const int64_t count = plan.positions.count;
  if (!plan.transpose && count <= kFewWords)
    return launch("copy", copyKernel<Word, 1>, gridFor(count), stream, plan.positions, from, to);
  if (!plan.transpose) {
    const Launch grid = gridFor((count + kManyWords - 1) / kManyWords);
    return launch("copy", copyKernel<Word, kManyWords>, grid, stream, plan.positions, from, to);
  }
  const Launch grid{static_cast<unsigned>(plan.transpose->blocks), kThreads};
  return launch("copy", transposeKernel<Word>, grid, stream, *plan.transpose, from, to);
}

}  // namespace

Status copy(const CopyStep& step, const void* input, void* output, cudaStream_t stream) {
  const CopyPlan plan = planCopy(step, reinterpret_cast<uintptr_t>(input), reinterpret_cast<uintptr_t>(output));
  return withWord(plan.word, [&](auto word) { return launchCopy<decltype(word)>(plan, input, output, stream); });
}

Status fill(const FillStep& step, float* output, cudaStream_t stream) {
  return launch("fill", fillKernel, gridFor(step.count), stream, static_cast<int>(step.count),
                static_cast<float>(step.value), output);
}

}  // namespace warpconv::cuda::operators
