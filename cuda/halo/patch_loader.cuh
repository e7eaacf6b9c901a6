#pragma once

#include "cuda/halo/block.cuh"
#include "cuda/kernel/launch.cuh"
#include "cuda/kernel/partial_barrier.cuh"
#include "cuda/tensor_core/fp16_split.cuh"
#include "cuda/tensor_core/largest.cuh"
#include "cuda/tensor_core/warpgroup.cuh"

namespace warpconv::cuda::halo {

__device__ inline void loadFour(uint32_t at, float& a, float& b, float& c, float& d) {
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(a), "=f"(b), "=f"(c), "=f"(d) : "r"(at) : "memory");
}

/**
 * Brings a block's patch to shared memory by way of registers, where elements are split: high halves first, then low
 * ones; each as planes of eight channels, in which elements follow each other as columnsAt wants them. What is brought
 * together, a chunk or one of its phases, has one scale, which its largest element gives. A warpgroup's threads have
 * channels of as many elements side by side. `kPlain`: see Given.
 */
template <HaloTile kTile, bool kPlain>
class PatchLoader {
 public:
  /** `elements`: space for those of the patch. `largest`: for two numbers of each of the loaders' warps. */
  __device__ PatchLoader(const Arguments& x, const Place& place, Element* elements, float* largest, int thread)
      : x_(x), place_(place), elements_(elements), largest_(largest), thread_(thread), pixels_(x.phases * x.patch) {}

  /**
   * Brings `chunks` chunks from `firstChunk` on, part by part, once the kernels before are done. `stageOf(i)` waits for
   * the stage of part i, counted from 0, and `publish(scale)` tells of it once it is there.
   */
  __device__ void load(int firstChunk, int chunks, auto&& stageOf, auto&& publish) const {
    if (!kTile.inParts && pixels_ <= kElements) return loadHeld<1>(firstChunk, chunks, stageOf, publish);
    if constexpr (!kTile.inParts && kTile.held > 1) {
      if (pixels_ <= 2 * kElements) return loadHeld<2>(firstChunk, chunks, stageOf, publish);
      if (pixels_ <= 3 * kElements) return loadHeld<3>(firstChunk, chunks, stageOf, publish);
    }
    const int parts = kTile.inParts ? x_.parts : 1;
    // A patch has the tile's positions, and more: what is left out is known to be there. It took 5 % from conv4.
    __builtin_assume(pixels_ >= kTile.blockN);
    listElements(parts);
    waitForKernelsBefore();
#pragma unroll 1
    for (int chunk = 0; chunk < chunks; ++chunk) {
#pragma unroll 1
      for (int part = 0; part < parts; ++part) {
        loadPart(firstChunk + chunk, part, chunk * parts + part, stageOf, publish);
      }
    }
  }

 private:
  static constexpr int kLoaders = kTile.loaders();
  /** Of the hardware's barriers, after those that synchroniseFirst and __syncthreads take */
  static constexpr int kBarrier = 2;
  static constexpr int kChannels = kTile.loaderChannels(), kHeld = kTile.heldElements();
  /** Elements that the loaders have together, and planes that one of them has */
  static constexpr int kElements = 128, kPlanes = kChannels / 8;

  /** Of all parts, for loadPart. */
  __device__ void listElements(int parts) const {
    for (int i = thread_; i < parts * pixels_; i += kLoaders) elements_[i] = elementOf(i);
    synchroniseSome<kLoaders>(kBarrier);
  }
  __device__ Element elementOf(int pixel) const {
    const int phase = x_.byPatch.divide(pixel);
    return elementAt<kPlain>(x_, place_, phase, place_.n0 + pixel);
  }

  /** An element that a thread brings, chunk after chunk. */
  struct Held {
    /** Its first channel of the next chunk, and how many there are from that on; or where it is folded, see Element */
    const float* from;
    int present;
    float values[kChannels];
  };

  /**
   * Where a thread has up to kCount elements of a chunk, all of which registers hold: what it begins with is found
   * before the kernels before are done.
   */
  template <int kCount>
  __device__ void loadHeld(int chunk, int chunks, auto&& stageOf, auto&& publish) const {
    Held held[kCount];
    const auto forEach = [&](auto&& visit) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) visit(held[i], thread_ % kElements + i * kElements);
    };
    forEach([&](Held& one, int pixel) {
      const Element element = pixel < pixels_ ? elementOf(pixel) : Element::none();
      const int channel = firstChannel(chunk);
      one.from = x_.input + element.offset + (folded() ? 0 : channel * mapSize());
      one.present = folded() ? static_cast<int>(element.outside) : presentFrom(channel, element);
      // The compiler would find them later.
      asm volatile("" : "+l"(one.from), "+r"(one.present));
    });
    const auto fetchNext = [&](Held& one) {
      if (folded()) return fetchFolded(one.from, one.values, firstChannel(chunk), one.present);
      fetchFrom(one.from, one.values, one.present);
      one.from += kChunkChannels * mapSize(), one.present -= kChunkChannels;
    };
    waitForKernelsBefore();
    forEach([&](Held& one, int) { fetchNext(one); });
#pragma unroll 1
    for (int i = 0;;) {
      float most = 0.0f;
      forEach([&](Held& one, int) { most = fmaxf(most, largestOf(one.values)); });
      const uint32_t stage = stageOf(i);
      const float scale = scaleFor(largestOfAll(most, i % 2));
      const bool isLast = ++i == chunks;
      ++chunk;
      forEach([&](Held& one, int pixel) {
        store(one.values, scale, stage, pixel);
        if (kFetchesAsItStores<kCount> && !isLast) fetchNext(one);
      });
      publish(scale);
      if (isLast) break;
      if (!kFetchesAsItStores<kCount>) forEach([&](Held& one, int) { fetchNext(one); });
    }
  }

  /**
   * Where a thread has three elements, that of the next chunk is fetched as each is stored. It took 7 % from a strided
   * layer at batch 1, and added 1 % to layers where a thread has two.
   */
  template <int kCount>
  static constexpr bool kFetchesAsItStores = kCount > 2;

  /** `count`: of the parts before. */
  __device__ void loadPart(int chunk, int part, int count, auto&& stageOf, auto&& publish) const {
    const Element* const elements = elements_ + part * pixels_;
    float values[kHeld][kChannels];
    constexpr int kHeldElements = kHeld * kElements;
    const int firstLast = (pixels_ - 1) / kHeldElements * kHeldElements;
    const auto fetchAll = [&](int base, float most) {
      forEachHeld(values, base, [&](auto& held, int pixel) {
        fetch(held, chunk, pixel < pixels_ ? elements[pixel] : Element::none());
      });
      forEachHeld(values, base, [&](auto& held, int) { most = fmaxf(most, largestOf(held)); });
      return most;
    };
    float most = fetchAll(0, 0.0f);
    const uint32_t stage = stageOf(count);
    // Elements that no registers are left for wait for their scale where their halves come to lie.
#pragma unroll 1
    for (int base = 0; base < firstLast; base += kHeldElements) {
      forEachHeld(values, base, [&](auto& held, int pixel) { put(held, stage, pixel); });
      most = fetchAll(base + kHeldElements, most);
    }
    const float scale = scaleFor(largestOfAll(most, count % 2));
#pragma unroll 1
    for (int base = firstLast;;) {
      forEachHeld(values, base, [&](auto& held, int pixel) { store(held, scale, stage, pixel); });
      base -= kHeldElements;
      if (base < 0) break;
      forEachHeld(values, base, [&](auto& held, int pixel) { take(held, stage, pixel); });
    }
    publish(scale);
  }

  /** Calls visit(held, pixel) for this thread's from `base` on; sets of elements that no thread has are left out. */
  __device__ void forEachHeld(float (&values)[kHeld][kChannels], int base, auto&& visit) const {
#pragma unroll
    for (int i = 0; i < kHeld; ++i) {
      const int first = base + i * kElements;
      if (first < pixels_) visit(values[i], first + thread_ % kElements);
    }
  }

  __device__ int firstPlane() const { return kPlanes * (thread_ / kElements); }
  /** Of this thread's */
  __device__ int firstChannel(int chunk) const { return chunk * kChunkChannels + firstPlane() * 8; }
  __device__ bool folded() const { return !kPlain && isFolded(x_); }

  __device__ void fetch(float (&values)[kChannels], int chunk, const Element& element) const {
    const float* const from = x_.input + element.offset;
    const int first = firstChannel(chunk);
    if (folded()) return fetchFolded(from, values, first, element.outside);
    fetchFrom(from + first * mapSize(), values, presentFrom(first, element));
  }

  /** Channels from `first` on, of an element of which channel 0 begins at `from`. */
  __device__ void fetchFolded(const float* from, float (&values)[kChannels], int first, uint32_t outside) const {
#pragma unroll
    for (int c = 0; c < kChannels; ++c) {
      const FoldedChannel folded = x_.folded[first + c];
      values[c] = (folded.bits & outside) == 0 ? __ldca(from + folded.offset) : 0.0f;
    }
  }

  /** From the first of an element's channels on, of which so many are there. */
  __device__ void fetchFrom(const float* from, float (&values)[kChannels], int present) const {
    // Not by __ldg, which the compiler may move to before waitForKernelsBefore.
#pragma unroll
    for (int c = 0; c < kChannels; ++c, from += mapSize()) values[c] = c < present ? __ldca(from) : 0.0f;
  }
  __device__ int presentFrom(int channel, const Element& element) const {
    return element.outside == kPastTheLast ? x_.channels - channel : 0;
  }
  __device__ int mapSize() const { return x_.shape.h * x_.shape.w; }

  /** NaN, which makes its products NaN at any scale, does not count. */
  __device__ static float largestOf(const float (&values)[kChannels]) {
    float most = 0.0f;
#pragma unroll
    for (int c = 0; c < kChannels; ++c) most = fmaxf(most, fabsf(values[c]));
    return most;
  }

  /** Of all loaders; `parity` is another one than the last time. */
  __device__ float largestOfAll(float own, int parity) const {
    return largestOfThreads<kLoaders>(own, largest_ + parity * (kLoaders / 32), thread_,
                                      [] { synchroniseSome<kLoaders>(kBarrier); });
  }

  /** Where a channel is so much smaller than the chunk's largest that its halves lack bits, all are stored as NaN. */
  __device__ void store(const float (&values)[kChannels], float scale, uint32_t stage, int pixel) const {
    if (pixel >= pixels_) return;
    const bool tooSmall = lacksBits(values, scale);
    forEachEight(stage, pixel, [&](int c, uint32_t high, uint32_t low) {
      Fp16Pairs pairs[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        pairs[j] = splitFp16(values[c + 2 * j], values[c + 2 * j + 1], scale);
        if (tooSmall) pairs[j].high = kTwoNaNs;
      }
      storeFour(high, pairs[0].high, pairs[1].high, pairs[2].high, pairs[3].high);
      storeFour(low, pairs[0].low, pairs[1].low, pairs[2].low, pairs[3].low);
    });
  }

  /** As they are, where store() will put their halves; and back. */
  __device__ void put(const float (&values)[kChannels], uint32_t stage, int pixel) const {
    if (pixel >= pixels_) return;
    forEachEight(stage, pixel, [&](int c, uint32_t first, uint32_t second) {
      const auto bits = [&](int i) { return __float_as_uint(values[c + i]); };
      storeFour(first, bits(0), bits(1), bits(2), bits(3));
      storeFour(second, bits(4), bits(5), bits(6), bits(7));
    });
  }
  __device__ void take(float (&values)[kChannels], uint32_t stage, int pixel) const {
    if (pixel >= pixels_) return;
    forEachEight(stage, pixel, [&](int c, uint32_t first, uint32_t second) {
      loadFour(first, values[c], values[c + 1], values[c + 2], values[c + 3]);
      loadFour(second, values[c + 4], values[c + 5], values[c + 6], values[c + 7]);
    });
  }

  /** Calls visit(c, high, low) for each eight channels from `c` on that this thread has, and where their halves lie. */
  __device__ void forEachEight(uint32_t stage, int pixel, auto&& visit) const {
    const int planeBytes = 16 * pixels_;
    uint32_t at = stage + firstPlane() * planeBytes + pixel * 16;
#pragma unroll
    for (int c = 0; c < kChannels; c += 8, at += planeBytes) visit(c, at, at + kChunkChannels / 8 * planeBytes);
  }

  const Arguments& x_;
  const Place& place_;
  Element* elements_;
  float* largest_;
  int thread_, pixels_;
};

}  // namespace warpconv::cuda::halo
