#pragma once

#include <cmath>
#include <cstdint>

#include "host_device.h"
#include "program/steps.h"

/** What one thread of any device computes of a RoiAlignStep, given as it is, or as a struct of the same fields. */
namespace warpconv::typed {

namespace detail {

/** The samples of one bin along one axis: number i of `count` lies at begin + (i + 1/2) * size / count. */
template <typename C>
struct Samples {
  C begin, size, count;
  /** Samples before this one lie beyond the map. */
  C first;
  /** How many are looked at from there on. Later ones lie beyond the map, too. */
  int64_t visited;
  /** 0, or NaN for a region that has no finite size */
  C unknown;

  WARPCONV_HOST_DEVICE C placeOf(int64_t i) const {
    // In this order, which keeps samples on the border of the map there.
    return begin + (first + static_cast<C>(i) + static_cast<C>(0.5)) * size / count;
  }
  WARPCONV_HOST_DEVICE bool isCut() const { return static_cast<C>(visited) < count; }
};

template <typename C, typename RoiAlign>
WARPCONV_HOST_DEVICE Samples<C> samplesOf(const RoiAlign& x, C low, C high, int64_t bins, int64_t bin, int64_t extent) {
  const C scale = static_cast<C>(x.scale), shift = static_cast<C>(x.halfPixel ? 0.5 : 0);
  const C from = low * scale - shift;
  const C size = high * scale - shift - from;
  const C binSize = (!x.halfPixel && size < 1 ? C{1} : size) / static_cast<C>(bins);
  const C adaptive = std::ceil(binSize);
  Samples<C> result{};
  result.begin = from + static_cast<C>(bin) * binSize;
  result.count = x.samples > 0 ? static_cast<C>(x.samples) : adaptive > 0 ? adaptive : C{0};
  result.size = binSize;
  result.visited = x.samples;
  result.unknown = size - size;
  if (x.samples > 0) return result;
  // A bin has one sample an element of its length, rounded up. So two samples are at least half an element apart, and
  // no more than this many lie within the map.
  const C most = static_cast<C>(2 * extent + 8);
  const C step = result.count > 0 ? binSize / result.count : C{1};
  const C before = std::floor((-1 - result.begin) / step) - 1;
  result.first = before > 0 ? before : C{0};
  const C rest = result.count - result.first;
  result.visited = rest > 0 ? static_cast<int64_t>(rest < most ? rest : most) : 0;
  return result;
}

/** The elements of one axis that a place lies between. Up to one beyond the map, they are those of its border. */
template <typename C>
struct Between {
  int64_t low, high;
  /** Of the second; the first has the rest of 1 */
  C weight;
  bool isInside;
};

template <typename C>
WARPCONV_HOST_DEVICE Between<C> betweenAt(C place, int64_t extent) {
  if (!(place >= -1 && place <= static_cast<C>(extent))) return {0, 0, 0, false};
  const C last = static_cast<C>(extent - 1);
  const C own = place < 0 ? C{0} : place > last ? last : place;
  // Of a very long axis the last place may be rounded up.
  const int64_t found = static_cast<int64_t>(own);
  const int64_t low = found < extent ? found : extent - 1;
  return {low, low + 1 < extent ? low + 1 : low, own - static_cast<C>(low), true};
}

/** NaN, where either is. */
template <typename C>
WARPCONV_HOST_DEVICE C greaterOf(C a, C b) {
  return b > a || b != b ? b : a;
}

/** Greatest is, by ONNX's reference, the greatest of the four elements around, each times its weight. */
template <typename C>
WARPCONV_HOST_DEVICE C sampleAt(const C* map, int64_t w, const Between<C>& row, const Between<C>& column,
                                bool greatest) {
  if (!row.isInside || !column.isInside) return 0;
  const C top = 1 - row.weight, left = 1 - column.weight;
  const C* const upper = map + row.low * w;
  const C* const lower = map + row.high * w;
  const C a = top * left * upper[column.low], b = top * column.weight * upper[column.high];
  const C c = row.weight * left * lower[column.low], d = row.weight * column.weight * lower[column.high];
  return greatest ? greaterOf(greaterOf(a, b), greaterOf(c, d)) : a + b + c + d;
}

}  // namespace detail

/** Element number `bin` of the [channels, p, q] of a region, whose box is x1, y1, x2, y2, in that image. */
template <typename C, typename RoiAlign>
WARPCONV_HOST_DEVICE C alignedBin(const RoiAlign& x, const C* input, const C* box, int64_t image, int64_t bin) {
  const int64_t channel = bin / x.q / x.p;
  const C* const map = input + (image * x.channels + channel) * x.h * x.w;
  const auto rows = detail::samplesOf<C>(x, box[1], box[3], x.p, bin / x.q % x.p, x.h);
  const auto columns = detail::samplesOf<C>(x, box[0], box[2], x.q, bin % x.q, x.w);
  const C unknown = rows.unknown + columns.unknown;
  if (unknown != unknown) return unknown;
  C total = 0;
  // Samples that are not looked at are 0, too.
  bool isFirst = !rows.isCut() && !columns.isCut();
  for (int64_t i = 0; i < rows.visited; ++i) {
    const auto row = detail::betweenAt<C>(rows.placeOf(i), x.h);
    for (int64_t j = 0; j < columns.visited; ++j) {
      const auto column = detail::betweenAt<C>(columns.placeOf(j), x.w);
      const C sample = detail::sampleAt<C>(map, x.w, row, column, x.greatest);
      total = !x.greatest ? total + sample : isFirst ? sample : detail::greaterOf(total, sample);
      isFirst = false;
    }
  }
  const C count = rows.count * columns.count;
  return x.greatest || !(count > 0) ? total : total / count;
}

}  // namespace warpconv::typed
