#pragma once

#include "cuda/implicit/arguments.h"
#include "cuda/implicit/block.cuh"
#include "cuda/implicit/elements.cuh"
#include "cuda/kernel/in_register.cuh"
#include "cuda/kernel/partial_barrier.cuh"
#include "cuda/tensor_core/warpgroup.cuh"

namespace warpconv::cuda::implicit {

/** Adjacent channels of a pixel that are 16 bytes of elements, as floats and as elements. */
template <typename Element>
struct Piece {
  static constexpr int kChannels = kPieceBytes / sizeof(typename Element::Bits);
  static constexpr int kOfWord = kChannels / 4;

  float x[kChannels];
};
using Elements = uint4;

/**
 * Where the pieces of a warpgroup's thread lie. Products give a thread, with g = lane / 4 and t = lane % 4, columns
 * 8 j + 2 t and 8 j + 2 t + 1 of rows 16 * warp + g and 8 more. Filters are ordered so that these columns, of j = 4 i
 * to 4 i + 3, are channels 32 i + 8 t to 32 i + 8 t + 7 of halves: piece 2 i of the first row, and piece 2 i + 1 of the
 * other. Of float32 j = 2 i and 2 i + 1 are channels 16 i + 4 t to 16 i + 4 t + 3.
 */
struct PiecePlace {
  int pixel, channel;

  template <ImplicitTile kTile>
  static __device__ PiecePlace of(int piece, int thread) {
    const int lane = thread % 32;
    return {thread / 32 * 16 + lane / 4 + piece % 2 * 8,
            piece / 2 * kTile.filterGroup() + lane % 4 * kTile.pieceChannels()};
  }
};

template <typename Element>
__device__ inline void add(Piece<Element>& sums, const Elements& elements) {
  constexpr int kOfWord = Piece<Element>::kOfWord;
  const uint32_t words[4] = {elements.x, elements.y, elements.z, elements.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    float values[kOfWord];
    Element::decode(words[i], values);
#pragma unroll
    for (int j = 0; j < kOfWord; ++j) sums.x[i * kOfWord + j] += values[j];
  }
}

/** Where it is beyond K, `count` less than a piece has, no more than so many are read. */
template <typename Element>
__device__ inline void addBias(Piece<Element>& sums, const float* bias, int channel, int count) {
  constexpr int kChannels = Piece<Element>::kChannels;
  if (bias == nullptr || count <= 0) return;
  if (count >= kChannels) {
#pragma unroll
    for (int i = 0; i < kChannels; i += 4) {
      const float4 quad = __ldg(reinterpret_cast<const float4*>(bias + channel + i));
      sums.x[i] += quad.x, sums.x[i + 1] += quad.y, sums.x[i + 2] += quad.z, sums.x[i + 3] += quad.w;
    }
  } else {
#pragma unroll
    for (int i = 0; i < kChannels; ++i) sums.x[i] += i < count ? __ldg(bias + channel + i) : 0.0f;
  }
}

template <typename Element>
__device__ inline Elements encoded(const Piece<Element>& sums) {
  constexpr int kOfWord = Piece<Element>::kOfWord;
  return make_uint4(Element::encode(sums.x), Element::encode(sums.x + kOfWord), Element::encode(sums.x + 2 * kOfWord),
                    Element::encode(sums.x + 3 * kOfWord));
}

/** The elements of a piece once its activation is applied. */
template <typename Element>
__device__ inline Elements finished(Piece<Element>& sums, const BoundedActivation& activation) {
  Element::activate(sums.x, activation);
  return encoded(sums);
}

/** Finishes pieces and stores them where they belong. */
template <typename Element>
class Outputs {
  using Bits = typename Element::Bits;
  static constexpr int kChannels = Piece<Element>::kChannels, kOfWord = Piece<Element>::kOfWord;

 public:
  __device__ Outputs(const Arguments& x, const OwnTile& tile) : x_(x), tile_(tile) {}

  /** Of elements: zeros where there is none, or it is of float32 beside halves */
  __device__ Elements residualAt(const PiecePlace& place) const {
    Elements elements{};
    const int count = countOf(place);
    if (x_.residual == nullptr || x_.floatResidual || count <= 0) return elements;
    const auto* const from = static_cast<const Bits*>(x_.residual) + offset(place, x_.residualPitch);
    if (count >= kChannels) return *reinterpret_cast<const Elements*>(from);
    uint32_t words[4]{};
#pragma unroll
    for (int i = 0; i < kChannels; ++i) {
      if (i < count) words[i / kOfWord] |= static_cast<uint32_t>(from[i]) << i % kOfWord * 16;
    }
    return make_uint4(words[0], words[1], words[2], words[3]);
  }

  __device__ void store(const PiecePlace& place, Piece<Element>& sums, const Elements& residual) const {
    const int count = countOf(place);
    if (count <= 0) return;
    addBias(sums, x_.bias, tile_.firstFilter + place.channel, count);
    if (x_.residual != nullptr && !x_.floatResidual) add(sums, residual);
    if (x_.residual != nullptr && x_.floatResidual) addFloats(place, sums, count);
    Element::activate(sums.x, x_.activation);
    if (x_.floatOutput) {
      writeFloats(place, sums, count);
    } else {
      write(place, encoded(sums), count);
    }
  }

 private:
  __device__ void addFloats(const PiecePlace& place, Piece<Element>& sums, int count) const {
    const float* const from = static_cast<const float*>(x_.residual) + offset(place, x_.residualPitch);
#pragma unroll
    for (int i = 0; i < kChannels; ++i) {
      if (i < count) sums.x[i] += from[i];
    }
  }

  __device__ void writeFloats(const PiecePlace& place, const Piece<Element>& sums, int count) const {
    float* const to = static_cast<float*>(x_.output) + offset(place, x_.outputPitch);
    if (count >= kChannels) {
#pragma unroll
      for (int i = 0; i < kChannels; i += 4) {
        *reinterpret_cast<float4*>(to + i) = make_float4(sums.x[i], sums.x[i + 1], sums.x[i + 2], sums.x[i + 3]);
      }
      return;
    }
#pragma unroll
    for (int i = 0; i < kChannels; ++i) {
      if (i < count) to[i] = sums.x[i];
    }
  }

  __device__ void write(const PiecePlace& place, const Elements& elements, int count) const {
    auto* const to = static_cast<Bits*>(x_.output) + offset(place, x_.outputPitch);
    if (count >= kChannels) {
      *reinterpret_cast<Elements*>(to) = elements;
      return;
    }
    const uint32_t words[4] = {elements.x, elements.y, elements.z, elements.w};
#pragma unroll
    for (int i = 0; i < kChannels; ++i) {
      if (i < count) to[i] = static_cast<Bits>(words[i / kOfWord] >> i % kOfWord * 16);
    }
  }

  /** Channels from the place on; none of a pixel that does not exist */
  __device__ int countOf(const PiecePlace& place) const {
    return tile_.firstPixel + place.pixel < x_.pixels ? x_.channels - tile_.firstFilter - place.channel : 0;
  }
  __device__ int64_t offset(const PiecePlace& place, int pitch) const {
    return int64_t{tile_.firstPixel + place.pixel} * pitch + tile_.firstFilter + place.channel;
  }

  const Arguments& x_;
  const OwnTile& tile_;
};

/**
 * Finishes a warpgroup's pieces in boxes in shared memory, which the copy engine stores. It brings the residual to
 * where they will lie, as soon as the outputs before have been read. Pieces lie exchanged with those of the rows around
 * them, as the engine's maps say: piece u of row r at u ^ r % 8, or, of rows of 64 bytes, at u ^ r / 2 % 4.
 */
template <typename Element, ImplicitTile kTile>
class BoxedOutputs {
  static constexpr int kBoxes = kTile.boxes(), kBoxPieces = kTile.pieces() / kBoxes;
  static constexpr int kRowPieces = kTile.boxChannels() / kTile.pieceChannels();

 public:
  __device__ BoxedOutputs(const Arguments& x, const Ring<kTile, true>& ring)
      : x_(x), ring_(ring), warpgroup_(warpgroupIndex()), boxes_(ring.outputs(x, warpgroup_)) {}

  /** Has the residual brought that the block's first tile begins with. */
  __device__ void begin() const {
    if (x_.residual != nullptr && threadIdx.x % 128 == 0) {
      const OwnTile tile = OwnTile::of<kTile>(x_, blockIdx.x);
      for (int box = 0; box < 1 << x_.heldBoxes; ++box) bringResidual(tile, box);
    }
    __syncwarp();
  }

  /** `index`: of the tile, the block's own `made` having been stored */
  template <typename Sums>
  __device__ void store(int index, const Sums& sums, int made) const {
    const int thread = threadIdx.x % 128;
    const OwnTile tile = OwnTile::of<kTile>(x_, index);
#pragma unroll
    for (int box = 0; box < kBoxes; ++box) {
      if (x_.residual != nullptr) {
        waitForPhase(residualThere(box), (made * kBoxes + box) >> x_.heldBoxes & 1);
      } else {
        // The one that stores what was there before
        if (thread == 0) waitForRoom();
        __syncwarp();
        synchroniseWarpgroup();
      }
#pragma unroll
      for (int i = box * kBoxPieces; i < (box + 1) * kBoxPieces; ++i) {
        // Found anew for each piece, and again for its outputs: kept, a few registers of the largest tiles are spilled.
        const auto findPlace = [&] { return PiecePlace::of<kTile>(i, inRegister(thread)); };
        const PiecePlace place = findPlace();
        const int channel = tile.firstFilter + place.channel;
        Piece<Element> piece = sums.piece(i);
        addBias(piece, x_.bias, channel, x_.channels - channel);
        if (x_.residual != nullptr) add(piece, loadShared(addressOf(box, place)));
        const Elements elements = finished(piece, x_.activation);
        storeFour(addressOf(box, findPlace()), elements.x, elements.y, elements.z, elements.w);
      }
      publishToProducts();
      synchroniseWarpgroup();
      if (thread == 0) {
        storeBox(x_.outputBoxes, firstPixelOf(tile), firstFilterOf(tile, box), addressOf(box));
        commitStores();
        if (x_.residual != nullptr) bringNextResiduals(index, box);
      }
      __syncwarp();
    }
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

  __device__ int firstPixelOf(const OwnTile& tile) const { return tile.firstPixel + 64 * warpgroup_; }
  static __device__ int firstFilterOf(const OwnTile& tile, int box) {
    return tile.firstFilter + box * kTile.boxChannels();
  }

  /** Of the places that a warpgroup has for boxes */
  __device__ int placeOf(int box) const { return box & ((1 << x_.heldBoxes) - 1); }
  __device__ uint32_t addressOf(int box) const { return boxes_ + placeOf(box) * kTile.boxBytes(); }
  __device__ uint32_t addressOf(int box, const PiecePlace& place) const {
    const int piece = place.channel % kTile.boxChannels() / kTile.pieceChannels();
    const int exchanged = piece ^ (kRowPieces == 8 ? place.pixel % 8 : place.pixel / 2 % 4);
    return addressOf(box) + kPieceBytes * (place.pixel * kRowPieces + exchanged);
  }
  __device__ uint32_t residualThere(int box) const {
    return ring_.residualThere((warpgroup_ << x_.heldBoxes) + placeOf(box));
  }

  __device__ void bringResidual(const OwnTile& tile, int box) const {
    arriveExpecting(residualThere(box), kTile.boxBytes());
    copyBox(addressOf(box), x_.residualBoxes, firstPixelOf(tile), firstFilterOf(tile, box), residualThere(box));
  }

  /** Until the place of the next box has been read: where there are several, the box before may still be. */
  __device__ void waitForRoom() const {
    if (x_.heldBoxes == 0) {
      waitForStoresToRead();
    } else {
      waitForStoresToRead<1>();
    }
  }

  /** Once a box of tile `index` is being stored: to where boxes before it were, and behind a tile's last, to its own.
   */
  __device__ void bringNextResiduals(int index, int box) const {
    waitForRoom();
    const int behind = x_.heldBoxes == 0 ? 0 : 1;
    if (box >= behind) bringResidualAfter(index, box - behind);
    if (behind == 0 || box < kBoxes - 1) return;
    waitForStoresToRead();
    bringResidualAfter(index, box);
  }

  /** The residual of the box that takes the place of this one, in the next tile if there is one. */
  __device__ void bringResidualAfter(int index, int box) const {
    int next = box + (1 << x_.heldBoxes);
    if (next >= kBoxes) index += gridDim.x, next -= kBoxes;
    if (index < x_.tiles) bringResidual(OwnTile::of<kTile>(x_, index), next);
  }

  const Arguments& x_;
  const Ring<kTile, true>& ring_;
  /** Found once by all: one thread alone, which has the boxes stored, cannot ask the others of its warp for it. */
  const int warpgroup_;
  const uint32_t boxes_;
};

}  // namespace warpconv::cuda::implicit
