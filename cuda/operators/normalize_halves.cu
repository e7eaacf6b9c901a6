#include <algorithm>
#include <cstdint>

#include "cuda/operators/halves.cuh"
#include "cuda/operators/launch.cuh"
#include "cuda/operators/operators.h"

namespace warpconv::cuda::operators {
namespace {

constexpr int kWidth = 8;
/** Words of a row that a thread keeps; it reads those beyond again */
constexpr int kKept = 4;

struct RowNormalization {
  int rows, words;
  /** Threads of a row, a power of two within a warp, and its logarithm */
  int threads, shift;
  float epsilon;
  const float* scale;
  const float* bias;
};

__device__ float sumOfThreads(float sum, int threads) {
  for (int apart = threads / 2; apart > 0; apart /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, apart);
  return sum;
}

/**
 * Threads t * threads to (t + 1) * threads - 1 of the grid own row t, each the words that are `threads` apart. Rows
 * beyond the last are the last once more, so that all threads of a warp take part in its sums.
 */
template <typename Type>
__global__ void __launch_bounds__(kThreads)
    normalizeHalvesKernel(const __grid_constant__ RowNormalization x, const uint4* input, uint4* output) {
  beginStep();
  const unsigned thread = pieceOfThread();
  const int given = static_cast<int>(thread >> x.shift);
  const int row = min(given, x.rows - 1);
  const int first = static_cast<int>(thread & static_cast<unsigned>(x.threads - 1));
  const uint4* const from = input + int64_t{row} * x.words;
  uint4 kept[kKept];
#pragma unroll
  for (int i = 0; i < kKept; ++i) kept[i] = from[min(first + i * x.threads, x.words - 1)];
  const auto forEach = [&](const auto& body) {
    const auto visit = [&](int word, const uint4& bits) {
      float values[kWidth];
      widen<Type>(Halves<kWidth>{{bits.x, bits.y, bits.z, bits.w}}, values);
      body(word, values);
    };
#pragma unroll
    for (int i = 0; i < kKept; ++i) {
      const int word = first + i * x.threads;
      if (word < x.words) visit(word, kept[i]);
    }
    for (int word = first + kKept * x.threads; word < x.words; word += x.threads) visit(word, from[word]);
  };
  const float count = static_cast<float>(x.words * kWidth);
  float sum = 0;
  forEach([&](int, const float(&values)[kWidth]) {
#pragma unroll
    for (int lane = 0; lane < kWidth; ++lane) sum += values[lane];
  });
  const float mean = sumOfThreads(sum, x.threads) / count;
  float squares = 0;
  forEach([&](int, const float(&values)[kWidth]) {
#pragma unroll
    for (int lane = 0; lane < kWidth; ++lane) squares += (values[lane] - mean) * (values[lane] - mean);
  });
  const float factor = rsqrtf(sumOfThreads(squares, x.threads) / count + x.epsilon);
  if (given >= x.rows) return;
  forEach([&](int word, float(&values)[kWidth]) {
#pragma unroll
    for (int lane = 0; lane < kWidth; ++lane) {
      const int feature = word * kWidth + lane;
      const float scaled = (values[lane] - mean) * factor * (x.scale == nullptr ? 1.0f : x.scale[feature]);
      values[lane] = x.bias == nullptr ? scaled : scaled + x.bias[feature];
    }
    const Halves<kWidth> result = narrow<Type>(values);
    output[int64_t{row} * x.words + word] = {result.pairs[0], result.pairs[1], result.pairs[2], result.pairs[3]};
  });
}

}  // namespace

Status normalizeHalves(const NormalizeStep& step, const float* scale, const float* shift, const void* input,
                       void* output, cudaStream_t stream) {
  if (step.rows == 0 || step.count == 0) return {};
  const bool isAligned = step.count % kWidth == 0 && halvesTo(input) % kWidth == 0 && halvesTo(output) % kWidth == 0;
  if (step.groups != 1 || step.inner != 1 || !isAligned) {
    return unsupported(
        "a normalize step of halves takes rows of whole words, and a scale and a shift for each element");
  }
  constexpr int kWarp = 32;
  RowNormalization x{static_cast<int>(step.rows),
                     static_cast<int>(step.count / kWidth),
                     1,
                     0,
                     static_cast<float>(step.epsilon),
                     scale,
                     shift};
  for (; x.threads < std::min(kWarp, x.words); x.threads *= 2) ++x.shift;
  return withHalf(step.type, [&](auto type) {
    return launch("normalize", normalizeHalvesKernel<decltype(type)>, gridFor(step.rows * x.threads), stream, x,
                  static_cast<const uint4*>(input), static_cast<uint4*>(output));
  });
}

}  // namespace warpconv::cuda::operators
