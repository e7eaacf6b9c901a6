#pragma once

#include "cuda/epilogue/half_activation.cuh"
#include "cuda/implicit/arguments.h"
#include "cuda/implicit/block.cuh"
#include "cuda/kernel/in_register.cuh"
#include "cuda/kernel/partial_barrier.cuh"
#include "cuda/tensor_core/warpgroup.cuh"

namespace warpconv::cuda::implicit {

/** Eight adjacent channels of a pixel, as floats and as elements. */
struct Octet {
  float x[8];
};
using Elements = uint4;

/**
 * Where the octets of a warpgroup's thread lie. Products give a thread, with g = lane / 4 and t = lane % 4, columns
 * 8 j + 2 t and 8 j + 2 t + 1 of rows 16 * warp + g and 8 more. Filters are ordered so that these columns, of j = 4 i
 * to 4 i + 3, are channels 32 i + 8 t to 32 i + 8 t + 7: octet 2 i of the first row, and octet 2 i + 1 of the other.
 */
struct OctetPlace {
  int pixel, channel;

  static __device__ OctetPlace of(int octet, int thread) {
    const int lane = thread % 32;
    return {thread / 32 * 16 + lane / 4 + octet % 2 * 8, octet / 2 * kFilterGroup + lane % 4 * 8};
  }
};

template <typename Element>
__device__ inline void add(Octet& sums, const Elements& elements) {
  const uint32_t pairs[4] = {elements.x, elements.y, elements.z, elements.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 two = Element::decode(pairs[i]);
    sums.x[2 * i] += two.x, sums.x[2 * i + 1] += two.y;
  }
}

/** Where it is beyond K, `count` < 8, no more than so many are read. */
__device__ inline void addBias(Octet& sums, const float* bias, int channel, int count) {
  if (bias == nullptr || count <= 0) return;
  if (count >= 8) {
    const auto* const quads = reinterpret_cast<const float4*>(bias + channel);
    const float4 low = __ldg(quads), high = __ldg(quads + 1);
    sums.x[0] += low.x, sums.x[1] += low.y, sums.x[2] += low.z, sums.x[3] += low.w;
    sums.x[4] += high.x, sums.x[5] += high.y, sums.x[6] += high.z, sums.x[7] += high.w;
  } else {
#pragma unroll
    for (int i = 0; i < 8; ++i) sums.x[i] += i < count ? __ldg(bias + channel + i) : 0.0f;
  }
}

template <typename Element>
__device__ inline Elements encoded(const Octet& sums) {
  return make_uint4(Element::encode(sums.x[0], sums.x[1]), Element::encode(sums.x[2], sums.x[3]),
                    Element::encode(sums.x[4], sums.x[5]), Element::encode(sums.x[6], sums.x[7]));
}

/** The elements of an octet once its activation is applied. */
template <typename Element>
__device__ inline Elements finished(Octet& sums, const BoundedActivation& activation) {
  activateHalves(sums.x, activation);
  return encoded<Element>(sums);
}

/** Finishes octets and stores them where they belong. */
template <typename Element>
class Outputs {
 public:
  __device__ Outputs(const Arguments& x, const OwnTile& tile) : x_(x), tile_(tile) {}

  /** Of elements: zeros where there is none, or it is of float32 */
  __device__ Elements residualAt(const OctetPlace& place) const {
    Elements elements{};
    const int count = countOf(place);
    if (x_.residual == nullptr || x_.floatResidual || count <= 0) return elements;
    const auto* const from = static_cast<const uint16_t*>(x_.residual) + offset(place, x_.residualPitch);
    if (count >= 8) return *reinterpret_cast<const Elements*>(from);
    uint32_t pairs[4]{};
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      if (i < count) pairs[i / 2] |= static_cast<uint32_t>(from[i]) << i % 2 * 16;
    }
    return make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
  }

  __device__ void store(const OctetPlace& place, Octet& sums, const Elements& residual) const {
    const int count = countOf(place);
    if (count <= 0) return;
    addBias(sums, x_.bias, tile_.firstFilter + place.channel, count);
    if (x_.residual != nullptr && !x_.floatResidual) add<Element>(sums, residual);
    if (x_.residual != nullptr && x_.floatResidual) addFloats(place, sums, count);
    activateHalves(sums.x, x_.activation);
    if (x_.floatOutput) {
      writeFloats(place, sums, count);
    } else {
      write(place, encoded<Element>(sums), count);
    }
  }

 private:
  __device__ void addFloats(const OctetPlace& place, Octet& sums, int count) const {
    const float* const from = static_cast<const float*>(x_.residual) + offset(place, x_.residualPitch);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      if (i < count) sums.x[i] += from[i];
    }
  }

  __device__ void writeFloats(const OctetPlace& place, const Octet& sums, int count) const {
    float* const to = static_cast<float*>(x_.output) + offset(place, x_.outputPitch);
    if (count >= 8) {
      auto* const quads = reinterpret_cast<float4*>(to);
      quads[0] = make_float4(sums.x[0], sums.x[1], sums.x[2], sums.x[3]);
      quads[1] = make_float4(sums.x[4], sums.x[5], sums.x[6], sums.x[7]);
      return;
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      if (i < count) to[i] = sums.x[i];
    }
  }

  __device__ void write(const OctetPlace& place, const Elements& elements, int count) const {
    auto* const to = static_cast<uint16_t*>(x_.output) + offset(place, x_.outputPitch);
    if (count >= 8) {
      *reinterpret_cast<Elements*>(to) = elements;
      return;
    }
    const uint32_t pairs[4] = {elements.x, elements.y, elements.z, elements.w};
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      if (i < count) to[i] = static_cast<uint16_t>(pairs[i / 2] >> i % 2 * 16);
    }
  }

  /** Channels from the place on; none of a pixel that does not exist */
  __device__ int countOf(const OctetPlace& place) const {
    return tile_.firstPixel + place.pixel < x_.pixels ? x_.channels - tile_.firstFilter - place.channel : 0;
  }
  __device__ int64_t offset(const OctetPlace& place, int pitch) const {
    return int64_t{tile_.firstPixel + place.pixel} * pitch + tile_.firstFilter + place.channel;
  }

  const Arguments& x_;
  const OwnTile& tile_;
};

/**
 * Finishes a warpgroup's octets in boxes in shared memory, which the copy engine stores. Pieces of 16 bytes lie
 * exchanged with those of the rows around them, as the engine's maps say: piece u of row r at u ^ r % 8, or, of boxes
 * of 32 channels, at u ^ r / 2 % 4.
 */
template <typename Element, ImplicitTile kTile>
class BoxedOutputs {
 public:
  __device__ BoxedOutputs(const Arguments& x, const Ring<kTile, true>& ring)
      : x_(x), ring_(ring), warpgroup_(warpgroupIndex()), boxes_(ring.outputs(warpgroup_)) {}

  /** `parity`: of the tile's number among the block's */
  template <typename Sums>
  __device__ void store(const OwnTile& tile, const Sums& sums, int parity) const {
    const int thread = threadIdx.x % 128;
    if (x_.residual != nullptr) {
      waitForPhase(ring_.residualThere(), parity);
    } else {
      // The one that stores what was there before
      if (thread == 0) waitForStoresToRead();
      __syncwarp();
      synchroniseWarpgroup();
    }
#pragma unroll
    for (int i = 0; i < kTile.octets(); ++i) {
      // Found anew for each octet, and again for its outputs: kept, a few registers of the largest tiles are spilled.
      const auto findPlace = [&] { return OctetPlace::of(i, inRegister(thread)); };
      const OctetPlace place = findPlace();
      const int channel = tile.firstFilter + place.channel;
      Octet octet = sums.octet(i);
      addBias(octet, x_.bias, channel, x_.channels - channel);
      if (x_.residual != nullptr) add<Element>(octet, loadShared(addressOf(place)));
      const Elements elements = finished<Element>(octet, x_.activation);
      storeFour(addressOf(findPlace()), elements.x, elements.y, elements.z, elements.w);
    }
    publishToProducts();
    synchroniseWarpgroup();
    if (thread == 0) storeBoxes(tile);
    __syncwarp();
  }

 private:
  __device__ void synchroniseWarpgroup() const { synchroniseSome<128>(2 + warpgroup_); }

  static __device__ Elements loadShared(uint32_t at) {
    Elements elements;
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(elements.x), "=r"(elements.y), "=r"(elements.z), "=r"(elements.w)
                 : "r"(at)
                 : "memory");
    return elements;
  }

  __device__ uint32_t addressOf(const OctetPlace& place) const {
    constexpr int kPieces = kTile.boxFilters() / 8;
    const int piece = place.channel % kTile.boxFilters() / 8;
    const int exchanged = piece ^ (kPieces == 8 ? place.pixel % 8 : place.pixel / 2 % 4);
    return boxes_ + place.channel / kTile.boxFilters() * kTile.boxBytes() + 16 * (place.pixel * kPieces + exchanged);
  }

  __device__ void storeBoxes(const OwnTile& tile) const {
#pragma unroll
    for (int box = 0; box < kTile.filters / kTile.boxFilters(); ++box) {
      storeBox(x_.outputBoxes, tile.firstPixel + 64 * warpgroup_, tile.firstFilter + box * kTile.boxFilters(),
               boxes_ + box * kTile.boxBytes());
    }
    commitStores();
    if (x_.residual == nullptr) return;
    waitForStoresToRead();
    arrive(ring_.outputsStored());
  }

  const Arguments& x_;
  const Ring<kTile, true>& ring_;
  /** Found once by all: one thread alone, which has the boxes stored, cannot ask the others of its warp for it. */
  const int warpgroup_;
  const uint32_t boxes_;
};

}  // namespace warpconv::cuda::implicit
