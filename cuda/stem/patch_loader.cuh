#pragma once

#include "cuda/kernel/async_copy.cuh"
#include "cuda/stem/block.cuh"
#include "cuda/tensor_core/fp16_split.cuh"
#include "cuda/tensor_core/largest.cuh"

namespace warpconv::cuda::stem {

/**
 * Brings patches to shared memory, where each word is the high halves of two elements and the low ones: the first
 * tile's by way of registers, as far as they go, and later ones' as floats, by copies, while the tile before is
 * multiplied. A thread has the same words from the copy to the split, so that nobody waits for copies of others.
 */
template <StemTile kTile>
class PatchLoader {
 public:
  /** Words of the first tile that a thread keeps in registers: as many as of three channels of 7 x 7 by strides of two
   */
  static constexpr int kHeld = 6;
  struct Held {
    int2 sources[kHeld];
    float2 words[kHeld];
  };

  /** `largest`: for a number of each warp. */
  __device__ PatchLoader(const Arguments& x, const Place& place, float* largest)
      : x_(x), largest_(largest), group_(place.group * x.shape.groupInputs) {}

  /** Finds where the elements come from that this thread keeps in registers. */
  __device__ void prepare(Held& held, const TileOrigin& tile) const {
#pragma unroll
    for (int j = 0; j < kHeld; ++j) held.sources[j] = sourcesOf(tile, j);
  }

  /** Begins to load them, and to copy the others to `words`; padding is written as zeros. */
  __device__ void begin(Held& held, const TileOrigin& tile, float2* words) const {
    // Not by __ldg, which the compiler may move to before waitForKernelsBefore.
    const auto valueAt = [&](int source) { return source != kBeyond ? __ldca(x_.input + source) : 0.0f; };
#pragma unroll
    for (int j = 0; j < kHeld; ++j) held.words[j] = {valueAt(held.sources[j].x), valueAt(held.sources[j].y)};
    beginFrom(kHeld, tile, words);
  }
  /** The same of a later tile. */
  __device__ void begin(const TileOrigin& tile, float2* words) const { beginFrom(0, tile, words); }

  /** Splits what was loaded, by a scale that it gives back the inverse of. By all threads; others' words follow. */
  __device__ float split(const Held& held, float2* words) const {
    float most = 0.0f;
#pragma unroll
    for (int j = 0; j < kHeld; ++j) most = largerOf(most, held.words[j]);
    waitForCopies<0>();
    const float scale = scaleFor(largestOfAll(largestFrom(kHeld, words, most)));
#pragma unroll
    for (int j = 0; j < kHeld; ++j) {
      if (j < x_.wordsEach) own(words, j) = splitOf(held.words[j], scale);
    }
    splitFrom(kHeld, words, scale);
    return inverseOf(scale);
  }
  __device__ float split(float2* words) const {
    waitForCopies<0>();
    const float scale = scaleFor(largestOfAll(largestFrom(0, words, 0.0f)));
    splitFrom(0, words, scale);
    return inverseOf(scale);
  }

 private:
  /** Of this thread's words */
  __device__ static float2& own(float2* words, int j) { return words[threadIdx.x + j * kTile.threads()]; }

  /** Offsets in the input of the two elements of this thread's word j, or kBeyond. */
  __device__ int2 sourcesOf(const TileOrigin& tile, int j) const {
    const Shape& s = x_.shape;
    int word = threadIdx.x + j * kTile.threads();
    int row = x_.byRowWords.divide(word);
    const int c = x_.byPatchRows.divide(row);
    const int h = tile.p * s.strideH - s.padTop + row, w = tile.q * s.strideW - s.padLeft + word * x_.patchStep;
    const int offset = ((tile.n * s.c + group_ + c) * s.h + h) * s.w + w;
    // Of words that fill up the last of a thread's, not even the channel is.
    const bool isRow = c < s.groupInputs && static_cast<uint32_t>(h) < static_cast<uint32_t>(s.h);
    const auto source = [&](int ahead) {
      return isRow && static_cast<uint32_t>(w + ahead) < static_cast<uint32_t>(s.w) ? offset + ahead : kBeyond;
    };
    return {source(0), source(s.dilationW)};
  }

  __device__ void beginFrom(int first, const TileOrigin& tile, float2* words) const {
    const auto copy = [&](uint32_t to, int source) { copyOrZero<4>(to, x_.input + max(source, 0), source != kBeyond); };
#pragma unroll 2
    for (int j = first; j < x_.wordsEach; ++j) {
      const int2 sources = sourcesOf(tile, j);
      const uint32_t to = sharedAddress(&own(words, j));
      copy(to, sources.x), copy(to + 4, sources.y);
    }
    commitCopies();
  }

  /** NaN, which makes its products NaN at any scale, does not count. */
  __device__ static float largerOf(float most, const float2& word) {
    return fmaxf(most, fmaxf(fabsf(word.x), fabsf(word.y)));
  }
  __device__ float largestFrom(int first, float2* words, float most) const {
#pragma unroll 4
    for (int j = first; j < x_.wordsEach; ++j) most = largerOf(most, own(words, j));
    return most;
  }
  __device__ float largestOfAll(float own) const {
    return largestOfThreads<kTile.threads()>(own, largest_, threadIdx.x, [] { __syncthreads(); });
  }

  /** As it lies where the word's floats did. */
  __device__ static float2 splitOf(const float2& word, float scale) {
    const float two[2] = {word.x, word.y};
    Fp16Pairs halves = splitFp16(two[0], two[1], scale);
    if (lacksBits(two, scale)) halves.high = kTwoNaNs;
    return {__uint_as_float(halves.high), __uint_as_float(halves.low)};
  }
  __device__ void splitFrom(int first, float2* words, float scale) const {
#pragma unroll 4
    for (int j = first; j < x_.wordsEach; ++j) own(words, j) = splitOf(own(words, j), scale);
  }

  const Arguments& x_;
  float* largest_;
  /** First input channel */
  int group_;
};

}  // namespace warpconv::cuda::stem
