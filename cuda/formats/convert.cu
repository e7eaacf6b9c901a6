#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <type_traits>

#include "cuda/formats/convert.h"
#include "cuda/operators/launch.cuh"
#include "divide.h"

namespace warpconv::cuda {
namespace {

using operators::beginStep;

constexpr int kConvertThreads = 256;
/** Bytes of one access to memory */
constexpr int kAccessBytes = 16;
/** Images of this many channels or fewer become NHWC by one thread for each pixel. */
constexpr int kFewChannels = 8;

template <typename T>
inline constexpr int kPerAccess = kAccessBytes / static_cast<int>(sizeof(T));

template <typename T>
struct alignas(kAccessBytes) Access {
  T elements[kPerAccess<T>];
};

/** Whether elements of 16 bits are of bfloat16. */
struct HalfTypes {
  bool fromBfloat16, toBfloat16;
};

__device__ float toFloat(float value, bool) { return value; }
__device__ float toFloat(uint16_t bits, bool isBfloat16) {
  return isBfloat16 ? __uint_as_float(uint32_t{bits} << 16) : __half2float(__ushort_as_half(bits));
}

template <typename T>
__device__ T fromFloat(float value, bool isBfloat16) {
  if constexpr (std::is_same_v<T, float>) {
    return value;
  } else {
    return isBfloat16 ? __bfloat16_as_ushort(__float2bfloat16_rn(value)) : __half_as_ushort(__float2half_rn(value));
  }
}

/** The first `count` of kWidth adjacent elements, in whole accesses where that is all of them. */
template <int kWidth, typename T>
__device__ void readElements(const T* from, bool isBfloat16, int64_t count, float (&values)[kWidth],
                             bool isWhole = true) {
  if (kWidth % kPerAccess<T> == 0 && isWhole && count >= kWidth) {
#pragma unroll
    for (int i = 0; i < kWidth; i += kPerAccess<T>) {
      const Access<T> access = *reinterpret_cast<const Access<T>*>(from + i);
#pragma unroll
      for (int j = 0; j < kPerAccess<T> && i + j < kWidth; ++j) values[i + j] = toFloat(access.elements[j], isBfloat16);
    }
  } else {
#pragma unroll
    for (int i = 0; i < kWidth; ++i) values[i] = i < count ? toFloat(from[i], isBfloat16) : 0.0f;
  }
}

template <int kWidth, typename T>
__device__ void writeElements(T* to, bool isBfloat16, int64_t count, const float (&values)[kWidth],
                              bool isWhole = true) {
  if (kWidth % kPerAccess<T> == 0 && isWhole && count >= kWidth) {
#pragma unroll
    for (int i = 0; i < kWidth; i += kPerAccess<T>) {
      Access<T> access;
#pragma unroll
      for (int j = 0; j < kPerAccess<T> && i + j < kWidth; ++j)
        access.elements[j] = fromFloat<T>(values[i + j], isBfloat16);
      *reinterpret_cast<Access<T>*>(to + i) = access;
    }
  } else {
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      if (i < count) to[i] = fromFloat<T>(values[i], isBfloat16);
    }
  }
}

/** Elements that one thread moves at a time along a row */
template <typename From, typename To>
inline constexpr int kPerPiece = std::max(kPerAccess<From>, kPerAccess<To>);

/** Rows of adjacent elements, each `fromStride` and `toStride` elements behind the one before. */
struct Rows {
  int64_t count, length;
  int64_t fromStride, toStride;
  /** A row's pieces, of kPerPiece elements */
  int64_t pieces;
  /** Whether elements may be read, and written, by whole accesses */
  bool readsWhole, writesWhole;
  HalfTypes halves;
};

/** Thread i of the grid moves piece i % pieces of row i / pieces, and goes on a grid further. */
template <typename From, typename To>
__global__ void __launch_bounds__(kConvertThreads)
    rowsKernel(const __grid_constant__ Rows x, const From* __restrict__ from, To* __restrict__ to) {
  beginStep();
  constexpr int kWidth = kPerPiece<From, To>;
  const int64_t step = int64_t{gridDim.x} * kConvertThreads;
  for (int64_t i = int64_t{blockIdx.x} * kConvertThreads + threadIdx.x; i < x.count * x.pieces; i += step) {
    const int64_t row = x.count == 1 ? 0 : i / x.pieces;
    const int64_t first = (i - row * x.pieces) * kWidth;
    float values[kWidth];
    readElements(from + row * x.fromStride + first, x.halves.fromBfloat16, x.length - first, values, x.readsWhole);
    writeElements(to + row * x.toStride + first, x.halves.toBfloat16, x.length - first, values, x.writesWhole);
  }
}

/** Planes of pixels that become pixels of few channels. */
struct Pixels {
  int64_t images, channels, area;
  int64_t pitch;
  /** A plane's pieces, of kConvertThreads pixels */
  int64_t pieces;
  /** Whether pixels are written whole, with zeros behind their channels */
  bool isWhole;
  HalfTypes halves;
};

/**
 * Block b owns kConvertThreads adjacent pixels of image b / pieces, a thread each: neighbouring threads read neighbours
 * of a plane, and write pixels that are neighbours. The last pixel of all is not written whole: its tensor may end
 * there.
 */
template <typename From, typename To>
__global__ void __launch_bounds__(kConvertThreads)
    pixelsKernel(const __grid_constant__ Pixels x, const From* __restrict__ from, To* __restrict__ to) {
  beginStep();
  for (int64_t block = blockIdx.x; block < x.images * x.pieces; block += gridDim.x) {
    const int64_t image = block / x.pieces;
    const int64_t pixel = (block - image * x.pieces) * kConvertThreads + threadIdx.x;
    if (pixel >= x.area) continue;
    const From* const planes = from + image * x.channels * x.area + pixel;
    float values[kFewChannels];
#pragma unroll
    for (int c = 0; c < kFewChannels; ++c)
      values[c] = c < x.channels ? toFloat(planes[c * x.area], x.halves.fromBfloat16) : 0.0f;
    const int64_t place = image * x.area + pixel;
    const bool isWhole = x.isWhole && (x.channels == kFewChannels || place + 1 < x.images * x.area);
    if (isWhole) {
      writeElements(to + place * x.pitch, x.halves.toBfloat16, kFewChannels, values);
    } else {
#pragma unroll
      for (int c = 0; c < kFewChannels; ++c) {
        if (c < x.channels) to[place * x.pitch + c] = fromFloat<To>(values[c], x.halves.toBfloat16);
      }
    }
  }
}

/**
 * Matrices, one for each image: from[image][far][near] becomes to[image][near][far]. Of planes near are pixels and far
 * are channels, of pixels the other way round.
 */
struct Transposition {
  int64_t images, near, far;
  /** From one of the far to the next as they are read, from one of the near to the next as they are written */
  int64_t fromStride, toStride;
  int64_t fromImage, toImage;
  int64_t nearTiles, farTiles;
  /** Whether elements may be read, and written, by whole accesses */
  bool readsWhole, writesWhole;
  HalfTypes halves;
};

constexpr int kTile = 64;
/** Blocks of a multiprocessor: what one of them waits for, others move meanwhile. */
constexpr int kBlocksHeld = 4;

/**
 * A tile's elements in pieces of kWidth adjacent ones: visit(i, j) for elements i to i + kWidth - 1 of line j. Of the
 * lanes of a warp, 32 / kWidth have adjacent pieces, in each of kWidth lines: with lines of shared memory kTile + 1
 * words apart, all of them find their n-th elements in different banks, along lines and across.
 */
template <int kWidth, typename Visit>
__device__ void forPieces(int64_t adjacent, int64_t lines, Visit visit) {
  constexpr int kLanes = 32, kAdjacentLanes = kLanes / kWidth, kWarps = kConvertThreads / kLanes;
  static_assert(kTile == 2 * kAdjacentLanes * kWidth);
  const int lane = static_cast<int>(threadIdx.x) % kLanes, warp = static_cast<int>(threadIdx.x) / kLanes;
#pragma unroll 4
  for (int n = 0; n < kTile * kTile / kWidth / kConvertThreads; ++n) {
    const int part = warp + n * kWarps;
    const int i = (lane % kAdjacentLanes + part % 2 * kAdjacentLanes) * kWidth;
    const int j = lane / kAdjacentLanes + part / 2 * kWidth;
    if (i < adjacent && j < lines) visit(i, j);
  }
}

/**
 * Block b owns a tile of kTile near and far ones: near tile b % nearTiles, far tile b / nearTiles % farTiles, image b /
 * (nearTiles * farTiles), and goes on a grid further. Shared memory holds it, one line for each of the far.
 */
template <typename From, typename To>
__global__ void __launch_bounds__(kConvertThreads, kBlocksHeld)
    transposeKernel(const __grid_constant__ Transposition x, const From* __restrict__ from, To* __restrict__ to) {
  beginStep();
  __shared__ float tile[kTile][kTile + 1];
  for (int64_t block = blockIdx.x; block < x.images * x.nearTiles * x.farTiles; block += gridDim.x) {
    const int64_t lines = block / x.nearTiles;
    const int64_t image = lines / x.farTiles;
    const int64_t near = (block - lines * x.nearTiles) * kTile;
    const int64_t far = (lines - image * x.farTiles) * kTile;
    const int64_t nearLeft = x.near - near, farLeft = x.far - far;
    const From* const source = from + image * x.fromImage + far * x.fromStride + near;
    To* const target = to + image * x.toImage + near * x.toStride + far;
    const auto read = [&]<int kWidth>(std::integral_constant<int, kWidth>) {
      forPieces<kWidth>(nearLeft, farLeft, [&](int i, int j) {
        float values[kWidth];
        readElements(source + j * x.fromStride + i, x.halves.fromBfloat16, nearLeft - i, values);
#pragma unroll
        for (int n = 0; n < kWidth; ++n) tile[j][i + n] = values[n];
      });
    };
    const auto write = [&]<int kWidth>(std::integral_constant<int, kWidth>) {
      forPieces<kWidth>(farLeft, nearLeft, [&](int i, int j) {
        float values[kWidth];
#pragma unroll
        for (int n = 0; n < kWidth; ++n) values[n] = tile[i + n][j];
        writeElements(target + j * x.toStride + i, x.halves.toBfloat16, farLeft - i, values);
      });
    };
    x.readsWhole ? read(std::integral_constant<int, kPerAccess<From>>{}) : read(std::integral_constant<int, 1>{});
    __syncthreads();
    x.writesWhole ? write(std::integral_constant<int, kPerAccess<To>>{}) : write(std::integral_constant<int, 1>{});
    __syncthreads();
  }
}

/** More blocks than that go on a grid further. */
unsigned blocksFor(int64_t count) { return static_cast<unsigned>(std::min<int64_t>(count, int64_t{1} << 30)); }

/** Whether accesses to elements at multiples of these distances from it are aligned. */
template <typename T>
bool isAligned(const T* data, std::initializer_list<int64_t> distances) {
  return reinterpret_cast<uintptr_t>(data) % kAccessBytes == 0 &&
         std::all_of(distances.begin(), distances.end(), [](int64_t one) { return one % kPerAccess<T> == 0; });
}

/** One tensor in its two places: what lies in memory alike is described alike. */
template <typename From, typename To>
class FormatCopy {
 public:
  FormatCopy(const FormatExtents& extents, const HalfTypes& halves, const From* from, To* to, cudaStream_t stream)
      : x_(extents), halves_(halves), from_(from), to_(to), stream_(stream) {}

  /** Adjacent elements, all of them */
  Status copyAll() const {
    const int64_t all = x_.n * x_.channels * x_.area;
    return copyRows(1, all, 0, 0);
  }

  Status copyPixels(int64_t fromPitch, int64_t toPitch) const {
    return copyRows(x_.n * x_.area, x_.channels, fromPitch, toPitch);
  }

  Status planesToPixels(int64_t pitch) const {
    if (x_.channels <= kFewChannels) return fewPlanesToPixels(pitch);
    return transpose(x_.area, x_.channels, x_.area, pitch);
  }

  Status pixelsToPlanes(int64_t pitch) const { return transpose(x_.channels, x_.area, pitch, x_.area); }

 private:
  static constexpr const char* kWhat = "converting a tensor's format";

  Status copyRows(int64_t count, int64_t length, int64_t fromStride, int64_t toStride) const {
    const int64_t pieces = ceilDivide(length, kPerPiece<From, To>);
    const Rows rows{
        count,  length, fromStride, toStride, pieces, isAligned(from_, {fromStride}), isAligned(to_, {toStride}),
        halves_};
    const int64_t blocks = ceilDivide(count * pieces, kConvertThreads);
    return operators::launch(kWhat, rowsKernel<From, To>, {blocksFor(blocks), kConvertThreads}, stream_, rows, from_,
                             to_);
  }

  Status fewPlanesToPixels(int64_t pitch) const {
    const bool isWhole = pitch == kFewChannels && isAligned(to_, {pitch});
    const Pixels pixels{x_.n, x_.channels, x_.area, pitch, ceilDivide(x_.area, kConvertThreads), isWhole, halves_};
    return operators::launch(kWhat, pixelsKernel<From, To>, {blocksFor(x_.n * pixels.pieces), kConvertThreads}, stream_,
                             pixels, from_, to_);
  }

  Status transpose(int64_t near, int64_t far, int64_t fromStride, int64_t toStride) const {
    const Transposition matrices{.images = x_.n,
                                 .near = near,
                                 .far = far,
                                 .fromStride = fromStride,
                                 .toStride = toStride,
                                 .fromImage = far * fromStride,
                                 .toImage = near * toStride,
                                 .nearTiles = ceilDivide(near, kTile),
                                 .farTiles = ceilDivide(far, kTile),
                                 .readsWhole = isAligned(from_, {fromStride, far * fromStride}),
                                 .writesWhole = isAligned(to_, {toStride, near * toStride}),
                                 .halves = halves_};
    const int64_t blocks = matrices.images * matrices.nearTiles * matrices.farTiles;
    return operators::launch(kWhat, transposeKernel<From, To>, {blocksFor(blocks), kConvertThreads}, stream_, matrices,
                             from_, to_);
  }

  const FormatExtents x_;
  const HalfTypes halves_;
  const From* const from_;
  To* const to_;
  const cudaStream_t stream_;
};

template <typename Function>
Status withElement(FloatType type, Function function) {
  return type == FloatType::float32 ? function(float{}) : function(uint16_t{});
}

/** From one pixel to the next where pixels lie one after the other, else 0. Some planes are such pixels, too. */
int64_t pitchOf(const TensorFormat& format, const FormatExtents& extents) {
  if (format.layout == Layout::nhwc) return format.pitch == 0 ? extents.channels : format.pitch;
  return extents.area == 1 || extents.channels == 1 ? extents.channels : 0;
}

}  // namespace

Status convertFormat(const FormatExtents& extents, const TensorFormat& fromFormat, const void* from,
                     const TensorFormat& toFormat, void* to, cudaStream_t stream) {
  return withElement(fromFormat.type, [&](auto source) {
    return withElement(toFormat.type, [&](auto target) {
      using From = decltype(source);
      using To = decltype(target);
      const HalfTypes halves{fromFormat.type == FloatType::bfloat16, toFormat.type == FloatType::bfloat16};
      const FormatCopy<From, To> copy(extents, halves, static_cast<const From*>(from), static_cast<To*>(to), stream);
      const int64_t fromPitch = pitchOf(fromFormat, extents), toPitch = pitchOf(toFormat, extents);
      const bool isDense = fromPitch == toPitch && (fromPitch == 0 || fromPitch == extents.channels);
      if (isDense) return copy.copyAll();
      if (fromPitch == 0) return copy.planesToPixels(toPitch);
      if (toPitch == 0) return copy.pixelsToPlanes(fromPitch);
      return copy.copyPixels(fromPitch, toPitch);
    });
  });
}

}  // namespace warpconv::cuda
