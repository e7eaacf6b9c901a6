#include "cuda/async_copy.cuh"
#include "cuda/cluster.cuh"
#include "cuda/halo/arguments.h"
#include "cuda/launch.cuh"
#include "cuda/partial_barrier.cuh"
#include "cuda/phase_barrier.cuh"
#include "cuda/tensor_core.cuh"
#include "cuda/warpgroup.cuh"

namespace warpconv::cuda::halo {
namespace {

/** Where a block's share begins. */
struct Place {
  int group, rank;
  /** First output channel of the group, first position */
  int m0, n0;
  int firstChunk, chunks;
};

template <HaloTile kTile>
__device__ Place placeOf(const Arguments& x) {
  Place place;
  place.rank = static_cast<int>(blockIdx.x);
  place.m0 = x.byCluster.divide(place.rank);
  place.n0 = x.byTilesM.divide(place.m0);
  place.group = x.byTilesN.divide(place.n0);
  place.m0 *= kTile.blockM, place.n0 *= kTile.blockN;
  place.firstChunk = place.rank * x.chunksPerBlock;
  place.chunks = min(x.chunksPerBlock, x.chunks - place.firstChunk);
  return place;
}

/** The stages of a ring in shared memory, one after the other, and the parity of their phases. */
struct RingPlace {
  int stage = 0, parity = 0;

  __device__ void advance(int stages) {
    if (++stage == stages) stage = 0, parity ^= 1;
  }
};

/** Offset in the input of the element of channel 0 at a position in a phase, or kBeyond for padding. */
__device__ inline int inputOffset(const Arguments& x, const Place& place, int phase, int position) {
  if (static_cast<uint32_t>(position) >= static_cast<uint32_t>(x.positions)) return kBeyond;
  const Shape& s = x.shape;
  int columnPhase = phase;
  const int rowPhase = x.byColumnPhases.divide(columnPhase);
  int row = position;
  const int n = x.byImage.divide(row);
  int column = row;
  row = x.byRow.divide(column);
  const int h = row * s.strideH + rowPhase - s.padTop;
  const int w = column * s.strideW + columnPhase - s.padLeft;
  if (static_cast<uint32_t>(h) >= static_cast<uint32_t>(s.h) ||
      static_cast<uint32_t>(w) >= static_cast<uint32_t>(s.w)) {
    return kBeyond;
  }
  return ((n * s.c + place.group * s.groupInputs) * s.h + h) * s.w + w;
}

/** Offset in the output of channel 0 of the output at a position, or kBeyond where there is none. */
__device__ inline int outputOffset(const Arguments& x, const Place& place, int position) {
  if (static_cast<uint32_t>(position) >= static_cast<uint32_t>(x.positions)) return kBeyond;
  const Shape& s = x.shape;
  int p = position;
  const int n = x.byImage.divide(p);
  int q = p;
  p = x.byRow.divide(q);
  if (p >= s.p || q >= s.q) return kBeyond;
  return ((n * s.k + place.group * s.groupOutputs) * s.p + p) * s.q + q;
}

__device__ inline void storeFour(uint32_t at, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}

/**
 * Brings chunks of a block's patch to shared memory by way of registers, where elements are split: high halves first,
 * then low ones; each as planes of four channels, in which elements follow each other as columnsAt wants them.
 */
class PatchLoader {
 public:
  /** `offsets`: space for one of each element of the patch. `thread`: of kLoaders. */
  __device__ PatchLoader(const Arguments& x, const Place& place, int* offsets, int thread)
      : x_(x), offsets_(offsets), thread_(thread), pixels_(x.phases * x.patch) {
    for (int i = thread; i < pixels_; i += kLoaders) {
      int position = i;
      const int phase = x.byPatch.divide(position);
      offsets[i] = inputOffset(x, place, phase, place.n0 + position);
    }
  }

  /**
   * Brings `chunks` chunks from `firstChunk` on: kElements at a time, with all channels of their chunk, which need not
   * be the same one, since their loads take longer than all else. `stageOf(chunk)` waits for the place of a chunk,
   * counted from 0, and `publish()` tells of it once it is there.
   */
  __device__ void load(int firstChunk, int chunks, auto&& stageOf, auto&& publish) const {
    float values[kElements][kChunkChannels];
    Element next{0, thread_}, now[kElements];
    const auto fetchNext = [&](int set) {
      now[set] = next;
      if (next.chunk == chunks) return;
      fetch(values[set], firstChunk + next.chunk, next.pixel);
      next.pixel += kLoaders;
      // The same number of elements for each thread, so that they go through the chunks together.
      if (next.pixel - thread_ >= pixels_) next = {next.chunk + 1, thread_};
    };
    uint32_t stage = 0;
    const auto storeOne = [&](int set) {
      const Element element = now[set];
      if (element.chunk == chunks) return;
      if (element.pixel == thread_) stage = stageOf(element.chunk);
      if (element.pixel < pixels_) store(values[set], stage + element.pixel * 16);
      if (element.pixel - thread_ + kLoaders >= pixels_) publish();
    };
#pragma unroll 1
    while (next.chunk < chunks) {
#pragma unroll
      for (int set = 0; set < kElements; ++set) fetchNext(set);
#pragma unroll
      for (int set = 0; set < kElements; ++set) storeOne(set);
    }
  }

 private:
  /**
   * Under way together. With four the first chunk is there later, since all four are asked for before it is stored:
   * layers of 3 x 3 filters, in tiles of 64 columns, took 1 to 4 % longer at batch 1 on an H100.
   */
  static constexpr int kElements = 2;

  /** Of a chunk, counted from 0, the element at a pixel of the patch, which may lie beyond the last. */
  struct Element {
    int chunk, pixel;
  };

  __device__ void fetch(float (&values)[kChunkChannels], int chunk, int pixel) const {
    const int offset = pixel < pixels_ ? offsets_[pixel] : kBeyond;
    const int present = offset == kBeyond ? 0 : x_.shape.groupInputs - chunk * kChunkChannels;
    const int map = x_.shape.h * x_.shape.w;
    const float* element = x_.input + chunk * kChunkChannels * map + offset;
#pragma unroll
    for (int c = 0; c < kChunkChannels; ++c, element += map) {
      // Not by __ldg, which the compiler may move to before waitForKernelsBefore.
      values[c] = c < present ? __ldca(element) : 0.0f;
    }
  }

  __device__ void store(const float (&values)[kChunkChannels], uint32_t at) const {
    const int planeBytes = 16 * pixels_;
#pragma unroll
    for (int c = 0; c < kChunkChannels; c += 4, at += planeBytes) {
      Tf32Pair pairs[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) pairs[j] = splitTf32(values[c + j]);
      storeFour(at, pairs[0].high, pairs[1].high, pairs[2].high, pairs[3].high);
      storeFour(at + kChunkChannels / 4 * planeBytes, pairs[0].low, pairs[1].low, pairs[2].low, pairs[3].low);
    }
  }

  const Arguments& x_;
  int* offsets_;
  int thread_, pixels_;
};

/** A product's filter elements of one thread, as they are and in halves. */
struct RawFilters {
  float4 eight[2];
};
struct SplitFilters {
  uint32_t high[2][4], low[2][4];

  __device__ void take(const RawFilters& raw) {
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      const float four[] = {raw.eight[k].x, raw.eight[k].y, raw.eight[k].z, raw.eight[k].w};
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        // Products that read what loads write would wait for the newest of them each time.
        const Tf32Pair pair = splitRounded(four[i]);
        high[k][i] = pair.high, low[k][i] = pair.low;
        // Here, while products run, and not when they are done.
        asm volatile("" : "+r"(high[k][i]), "+r"(low[k][i]));
      }
    }
  }
};

/**
 * A warpgroup's sums: kWarpgroupM output channels by kTile.columns positions. Filters come from global memory to
 * registers kAhead products ahead. A product begins with zeros and is added to the sums by ordinary additions, as in
 * im2win's WarpgroupSums. Sets of operands, and where there are registers for that of products, take turns: while a
 * product runs, the one before is added and the next one's filters are split. Which set a product has must be known
 * when it begins, so its turn is part of the type.
 */
template <HaloTile kTile>
class HaloSums {
 public:
  /** Products that filters are fetched ahead */
  static constexpr int kAhead = 4;
  /** Sets of products: of two, one runs on when add() returns */
  static constexpr int kSets = kTile.columns == 64 ? 2 : 1;

  __device__ HaloSums(const Arguments& x, const Place& place) {
    const int warpgroup = warpgroupIndex();
    m_ = warpgroup % kTile.warpgroupsM() * kWarpgroupM;
    n_ = warpgroup / kTile.warpgroupsM() % kTile.warpgroupsN() * kTile.columns;
    part_ = warpgroup / (kTile.warpgroupsM() * kTile.warpgroupsN());
    const int block = place.group * x.outputBlocks + (place.m0 + m_) / kWarpgroupM;
    filter_ = reinterpret_cast<const float4*>(x.filter) +
              ((int64_t{block} * x.chunks + place.firstChunk) * x.tapCount + part_) * kProductQuads + threadIdx.x % 128;
    turns_ = remaining_ = (place.chunks * x.tapCount - part_ + kTile.parts - 1) / kTile.parts;
#pragma unroll
    for (RawFilters& raw : raw_) fetch(raw);
    operands_[0].take(raw_[0]);
    fetch(raw_[0]);
  }

  /** Products of this warpgroup, and which of the block's it begins with; every kTile.parts-th of them is its own. */
  __device__ int turns() const { return turns_; }
  __device__ int part() const { return part_; }

  /** Where this warpgroup's columns lie of those at `columns`, whose planes are `planeBytes` large. */
  __device__ uint64_t ownColumns(uint32_t columns, int planeBytes) const {
    return columnsAt(columns + n_ * 16, planeBytes);
  }

  /**
   * Begins product kTurn of a round of kAhead, with the elements at ownColumns, in two halves, and adds it or the one
   * before it, where there are two sets. `meanwhile` is called as it runs.
   */
  template <int kTurn>
  __device__ void add(uint64_t columns, int planeBytes, auto&& meanwhile) {
    begin(products_[kTurn % kSets], operands_[kTurn % 2], columns, planeBytes);
    const auto prepareNext = [&] {
      RawFilters& next = raw_[(kTurn + 1) % kAhead];
      operands_[(kTurn + 1) % 2].take(next);
      fetch(next);
    };
    if constexpr (kSets == 2) {
      meanwhile();
      addProducts<(kTurn + 1) % 2, 1>();
      prepareNext();
    } else {
      prepareNext();
      meanwhile();
      addProducts<0, 0>();
    }
  }

  /** Adds what add() has not. */
  __device__ void addLast() {
    if (kSets == 1) return;
    if (turns_ % 2 == 1) {
      addProducts<0, 0>();
    } else {
      addProducts<kSets - 1, 0>();
    }
  }

  /** Of two parts: each gives half of its sums to the other, through shared memory that nobody uses, and owns the rest.
   */
  __device__ void exchange(float* shared) {
    forEachPair([&](int i, int half) {
      if (!owns(half)) *reinterpret_cast<float2*>(stagedAt(shared, i)) = {sums_[i], sums_[i + 1]};
    });
    synchroniseFirst<kTile.threads()>();
    forEachPair([&](int i, int half) {
      if (!owns(half)) return;
      const float2 two = *reinterpret_cast<const float2*>(stagedAt(shared, i));
      sums_[i] += two.x, sums_[i + 1] += two.y;
    });
  }

  __device__ bool areFinite() const {
    // A product with zero is NaN for what is not finite, and any sum with NaN is.
    float zero = 0.0f;
    forEachPair([&](int i, int half) {
      if (owns(half)) zero = fmaf(sums_[i], 0.0f, fmaf(sums_[i + 1], 0.0f, zero));
    });
    return zero == 0.0f;
  }

  /** Into shared memory as [m][n]. */
  __device__ void write(float* shared) const {
    forEachPair([&](int i, int half) {
      if (owns(half)) *reinterpret_cast<float2*>(stagedAt(shared, i)) = {sums_[i], sums_[i + 1]};
    });
  }

 private:
  static constexpr int kCount = kTile.columns / 2;
  /** Of kWarpgroupM x kChunkChannels filter elements */
  static constexpr int kProductQuads = kWarpgroupM * kChunkChannels / 4;

  /** Calls take(i, half) for sums i and i + 1, which are neighbours, eight rows further down in the second half. */
  __device__ static void forEachPair(auto&& take) {
#pragma unroll
    for (int i = 0; i < kCount; i += 2) take(i, i / 2 % 2);
  }

  /** Whether this warpgroup finishes that half. */
  __device__ bool owns(int half) const { return kTile.parts == 1 || half == part_; }

  __device__ int firstRow() const { return m_ + threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4; }
  __device__ int firstColumn() const { return n_ + threadIdx.x % 4 * 2; }
  __device__ float* stagedAt(float* shared, int i) const {
    return shared + (firstRow() + i / 2 % 2 * 8) * kTile.outputPitch() + firstColumn() + i / 4 * 8;
  }

  /** Adds products_[kSet], once no more than kRunning that began later run on. */
  template <int kSet, int kRunning>
  __device__ void addProducts() {
    waitForProducts<kRunning>(products_[kSet]);
#pragma unroll
    for (int i = 0; i < kCount; ++i) sums_[i] += products_[kSet][i];
  }

  __device__ void fetch(RawFilters& raw) {
    if (remaining_ > 0) {
      // The plan's own, which no kernel before can be writing.
      raw.eight[0] = __ldg(filter_), raw.eight[1] = __ldg(filter_ + kProductQuads / 2);
    }
    --remaining_;
    filter_ += kTile.parts * kProductQuads;
  }

  __device__ static void begin(float (&products)[kCount], const SplitFilters& filters, uint64_t highs, int planeBytes) {
    const uint64_t lows = highs + (kChunkChannels / 4 * planeBytes >> 4);
    const uint64_t next = 2 * planeBytes >> 4;
    beginProducts();
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      beginMultiplyTf32(products, filters.low[k], highs + k * next, k > 0);
      beginMultiplyTf32(products, filters.high[k], lows + k * next, true);
      beginMultiplyTf32(products, filters.high[k], highs + k * next, true);
    }
    commitProducts();
  }

  int part_, m_, n_, turns_, remaining_;
  const float4* filter_;
  RawFilters raw_[kAhead];
  SplitFilters operands_[2];
  float products_[kSets][kCount] = {};
  float sums_[kCount] = {};
};

/**
 * Sums those of a block's staged sums again, by multiply-adds channel by channel and without padding, that are not
 * finite: see TensorSums for why they may be wrong.
 */
template <HaloTile kTile>
__device__ void sumNonFiniteAgain(const Arguments& x, const Place& place, float* shared) {
  const Shape& s = x.shape;
  const int map = s.h * s.w;
#pragma unroll 1
  for (int i = threadIdx.x; i < kTile.blockM * kTile.blockN; i += kTile.threads()) {
    const int m = i / kTile.blockN, n = i % kTile.blockN;
    float& staged = shared[m * kTile.outputPitch() + n];
    const int k = place.m0 + m;
    if (isfinite(staged) || k >= s.groupOutputs) continue;
    // Element (k, c) of a product is the thread's and quad's of this index, and element (c % 8 / 4) * 2 + k % 16 / 8.
    const int block = place.group * x.outputBlocks + k / kWarpgroupM;
    const int row = k % kWarpgroupM / 16 * 32 + k % 8 * 4;
    const float* filter =
        x.filter + (int64_t{block} * x.chunks + place.firstChunk) * x.tapCount * kWarpgroupM * kChunkChannels;
    float sum = 0.0f;
    const int firstChannel = place.firstChunk * kChunkChannels;
    const int channels = min(place.chunks * kChunkChannels, s.groupInputs - firstChannel);
#pragma unroll 1
    for (int c = 0; c < channels; ++c) {
      const float* const chunk = filter + c / kChunkChannels * x.tapCount * kWarpgroupM * kChunkChannels +
                                 c % kChunkChannels / 8 * (kWarpgroupM * 8) + (row + c % 4) * 4 + c % 8 / 4 * 2 +
                                 k % 16 / 8;
#pragma unroll 1
      for (int tap = 0; tap < x.tapCount; ++tap) {
        int shift = x.taps[tap];
        const int phase = x.byPatch.divide(shift);
        const int offset = inputOffset(x, place, phase, place.n0 + n + shift);
        if (offset == kBeyond) continue;
        sum = fmaf(chunk[tap * kWarpgroupM * kChunkChannels], x.input[offset + (firstChannel + c) * map], sum);
      }
    }
    staged = sum;
  }
}

/**
 * Calls store(sums, k, offsets) for the outputs whose sums the blocks of a cluster have staged, of which each block has
 * its share of the rows: four adjacent positions of output channel k of the group, with their offsets in channel 0.
 */
template <HaloTile kTile, bool kClustered>
__device__ void storeStaged(const Arguments& x, const Place& place, float* shared, const int* offsets, auto&& store) {
  constexpr int kColumns = kTile.blockN / 4;
  constexpr int kRows = kTile.threads() / kColumns;
  const int column = threadIdx.x % kColumns * 4;
  const int4 four = *reinterpret_cast<const int4*>(offsets + column);
  const int share = x.byCluster.quotient(kTile.blockM + x.cluster - 1);
  const int end = min(min(kTile.blockM, x.shape.groupOutputs - place.m0), (place.rank + 1) * share);
#pragma unroll 1
  for (int row = place.rank * share + threadIdx.x / kColumns; row < end; row += kRows) {
    float* const own = shared + row * kTile.outputPitch() + column;
    AdjacentSums<4> sums{};
    if constexpr (kClustered) {
      // All loads are under way together.
      AdjacentSums<4> staged[kMostBlocks];
#pragma unroll
      for (int rank = 0; rank < kMostBlocks; ++rank) {
        if (rank < x.cluster) staged[rank] = *reinterpret_cast<const AdjacentSums<4>*>(sharedOf(own, x.cluster, rank));
      }
#pragma unroll
      for (int rank = 0; rank < kMostBlocks; ++rank) {
        if (rank < x.cluster) sums.add(staged[rank].x);
      }
    } else {
      sums.add(own);
    }
    store(sums, place.m0 + row, {four.x, four.y, four.z, four.w});
  }
}

/** Finishes and writes the outputs whose sums the blocks of a cluster have staged. */
template <HaloTile kTile, bool kClustered>
__device__ void finishStaged(const Arguments& x, const Place& place, float* shared, const int* offsets) {
  const Shape& s = x.shape;
  const int firstK = place.group * s.groupOutputs, map = s.p * s.q;
  if (isBounded(x.epilogue)) {
    storeStaged<kTile, kClustered>(x, place, shared, offsets, [&](AdjacentSums<4>& sums, int k, const int(&four)[4]) {
      finishBounded(x.epilogue, sums, firstK + k);
      storeEach(sums, four, k * map, x.output);
    });
  } else {
    storeStaged<kTile, kClustered>(x, place, shared, offsets, [&](AdjacentSums<4>& sums, int k, const int(&four)[4]) {
      finishEach(x.epilogue, sums, firstK + k, four, k * map, x.output);
    });
  }
}

template <int kIndex>
__global__ void __launch_bounds__(kTiles[kIndex].tile.launchThreads(), 1)
    haloKernel(const __grid_constant__ Arguments x) {
  constexpr HaloTile kTile = kTiles[kIndex].tile;
  extern __shared__ float4 memory[];
  __shared__ uint64_t barriers[2 * kMostStages];
  __shared__ alignas(16) int outputs[kTile.blockN];
  float* const shared = reinterpret_cast<float*>(memory);
  const uint32_t stages = sharedAddress(shared);
  const uint32_t full = sharedAddress(barriers), free = full + 8 * kMostStages;
  const int pixels = x.phases * x.patch;
  const int bytesOfStage = static_cast<int>(stageBytes(pixels));

  if (threadIdx.x == 0) {
    for (int stage = 0; stage < x.stages; ++stage) {
      makePhaseBarrier(full + 8 * stage, kLoaders / 32);
      makePhaseBarrier(free + 8 * stage, kTile.threads() / 32);
    }
  }
  const Place place = placeOf<kTile>(x);
  RingPlace ring;
  __syncthreads();
  if (warpgroupIndex() >= kTile.threads() / 128) {
    leaveRegisters<kTile.loaderRegisters()>();
    const int thread = threadIdx.x - kTile.threads();
    const PatchLoader loader(x, place, reinterpret_cast<int*>(shared + x.stages * bytesOfStage / 4), thread);
    waitForKernelsBefore();
    const auto stageOf = [&](int chunk) {
      if (chunk >= x.stages) waitForPhase(free + 8 * ring.stage, ring.parity ^ 1);
      return stages + ring.stage * bytesOfStage;
    };
    const auto publish = [&] {
      publishToProducts();
      __syncwarp();
      if (thread % 32 == 0) arrive(full + 8 * ring.stage);
      ring.advance(x.stages);
    };
    loader.load(place.firstChunk, place.chunks, stageOf, publish);
    letNextKernelBegin();
    return;
  }

  takeRegisters<kTile.sumRegisters()>();
  for (int i = threadIdx.x; i < kTile.blockN; i += kTile.threads()) outputs[i] = outputOffset(x, place, place.n0 + i);
  HaloSums<kTile> sums(x, place);
  waitForKernelsBefore();
  int tap = sums.part();
  const auto columnsOf = [&] {
    return sums.ownColumns(stages + ring.stage * bytesOfStage + x.taps[tap] * 16, pixels * 16);
  };
  waitForPhase(full, 0);
  uint64_t columns = columnsOf();
  // Begins the next product, if there is one, and gives a stage back once the last product there is added; `spent` is
  // that of the product before, if it was the last.
  int left = sums.turns(), spent = kBeyond;
  const auto add = [&]<int kTurn>() {
    if (left == 0) return;
    const int stage = ring.stage;
    bool isNextChunk = false;
    sums.template add<kTurn>(columns, pixels * 16, [&] {
      tap += kTile.parts;
      isNextChunk = tap >= x.tapCount;
      if (isNextChunk) {
        tap -= x.tapCount;
        ring.advance(x.stages);
      }
      columns = columnsOf();
    });
    const int last = isNextChunk ? stage : kBeyond;
    const int done = HaloSums<kTile>::kSets == 1 ? last : spent;
    if (done != kBeyond && threadIdx.x % 32 == 0) arrive(free + 8 * done);
    spent = last;
    if (--left > 0 && isNextChunk) waitForPhase(full + 8 * ring.stage, ring.parity);
  };
  static_assert(HaloSums<kTile>::kAhead == 4);
#pragma unroll 1
  while (left > 0) {
    add.template operator()<0>();
    add.template operator()<1>();
    add.template operator()<2>();
    add.template operator()<3>();
  }
  sums.addLast();
  letNextKernelBegin();
  if constexpr (kTile.parts > 1) {
    synchroniseFirst<kTile.threads()>();
    sums.exchange(shared);
    // A thread's own places are free after that.
    sums.write(shared);
  }
  const bool finite = !synchroniseFirstAny<kTile.threads()>(!sums.areFinite());
  if constexpr (kTile.parts == 1) {
    sums.write(shared);
    synchroniseFirst<kTile.threads()>();
  }
  if (!finite) {
    sumNonFiniteAgain<kTile>(x, place, shared);
    synchroniseFirst<kTile.threads()>();
  }
  if (x.cluster == 1) return finishStaged<kTile, false>(x, place, shared, outputs);
  synchroniseCluster(x.cluster);
  finishStaged<kTile, true>(x, place, shared, outputs);
  // Nobody leaves while another block still reads.
  awaitClusterReads();
}

constexpr int kOrderThreads = 256;

/** Thread i owns ordered element i. */
__global__ void __launch_bounds__(kOrderThreads)
    filterOrderKernel(Shape x, int outputBlocks, int chunks, int64_t elements, const float* filter, float* ordered) {
  const int64_t i = blockIdx.x * int64_t{kOrderThreads} + threadIdx.x;
  if (i >= elements) return;
  // Of a thread's four: filter row g and g + 8 of channel t, then both of channel t + 4 (beginMultiplyTf32).
  const int four = static_cast<int>(i % 4), lane = static_cast<int>(i / 4 % 32), warp = static_cast<int>(i / 128 % 4);
  const int eight = static_cast<int>(i / 512 % 2);
  int64_t rest = i / (kWarpgroupM * kChunkChannels);
  const int taps = x.r * x.s;
  const int tap = static_cast<int>(rest % taps);
  rest /= taps;
  const int chunk = static_cast<int>(rest % chunks);
  rest /= chunks;
  const int block = static_cast<int>(rest % outputBlocks), group = static_cast<int>(rest / outputBlocks);
  const int k = block * kWarpgroupM + warp * 16 + lane / 4 + four % 2 * 8;
  const int c = chunk * kChunkChannels + eight * 8 + lane % 4 + four / 2 * 4;
  const bool exists = k < x.groupOutputs && c < x.groupInputs;
  const int64_t at = ((int64_t{group} * x.groupOutputs + k) * x.groupInputs + c) * taps + tap;
  ordered[i] = roundForTf32(exists ? filter[at] : 0.0f);
}

}  // namespace

void launchFilterOrder(const Shape& x, int outputBlocks, int chunks, const float* filter, float* ordered,
                       cudaStream_t stream) {
  const int64_t elements = int64_t{x.groups} * outputBlocks * chunks * x.r * x.s * kWarpgroupM * kChunkChannels;
  const auto blocks = static_cast<unsigned>((elements + kOrderThreads - 1) / kOrderThreads);
  filterOrderKernel<<<blocks, kOrderThreads, 0, stream>>>(x, outputBlocks, chunks, elements, filter, ordered);
}

Kernel kernelOf(int tile) {
  constexpr Kernel kKernels[] = {haloKernel<0>, haloKernel<1>, haloKernel<2>, haloKernel<3>, haloKernel<4>};
  static_assert(sizeof(kKernels) / sizeof(kKernels[0]) == kTileCount);
  return kKernels[tile];
}

}  // namespace warpconv::cuda::halo
