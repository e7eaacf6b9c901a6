#pragma once

#include <cstdint>

#include "host_device.h"
#include "program/steps.h"
#include "typed/elements.h"
#include "typed/functions.h"

/**
 * What one thread of any device computes of typed steps: a line of a scan, or an element of a reduction or a product.
 * Steps are given as they are, or as structs of the same fields that kernels can hold.
 */
namespace warpconv::typed {

namespace detail {

template <typename C>
WARPCONV_HOST_DEVICE C sumOf(C a, C b) {
  return static_cast<C>(static_cast<Wrapping<C>>(a) + static_cast<Wrapping<C>>(b));
}
template <typename C>
WARPCONV_HOST_DEVICE C productOf(C a, C b) {
  return static_cast<C>(static_cast<Wrapping<C>>(a) * static_cast<Wrapping<C>>(b));
}

}  // namespace detail

/** Whether a comes before b where the greatest, or the least, is first. NaN is greater than any number. */
template <typename C>
WARPCONV_HOST_DEVICE bool isBefore(C a, C b, bool greatest) {
  if (greatest) return a > b || (a != a && b == b);
  return a < b || (b != b && a == a);
}

/** Line number `line` of [outer, length, inner], of which there are outer * inner. */
template <typename C, typename Scan>
WARPCONV_HOST_DEVICE void scanLine(const Scan& x, const void* input, void* output, int64_t line) {
  const bool isSum = x.mode == program::ScanStep::Mode::sum;
  const int64_t first = line / x.inner * x.length * x.inner + line % x.inner;
  C total = isSum ? C{0} : C{1};
  for (int64_t i = 0; i < x.length; ++i) {
    const int64_t place = first + (x.reversed ? x.length - 1 - i : i) * x.inner;
    const C element = readAs<C>(x.type, input, place);
    if (x.exclusive) writeAs<C>(x.type, total, output, place);
    total = isSum ? detail::sumOf(total, element) : detail::productOf(total, element);
    if (!x.exclusive) writeAs<C>(x.type, total, output, place);
  }
}

/** Element number `line` of the output. Extremes of no elements are 0: compilers fill in what they are. */
template <typename C, typename Reduction>
WARPCONV_HOST_DEVICE void reduceLine(const Reduction& x, const void* input, void* output, int64_t line) {
  using Mode = program::ReduceStep::Mode;
  const int64_t first = line / x.inner * x.reduced * x.inner + line % x.inner;
  const auto at = [&](int64_t i) { return readAs<C>(x.type, input, first + i * x.inner); };
  if (x.mode == Mode::argMaximum || x.mode == Mode::argMinimum) {
    int64_t best = 0;
    for (int64_t i = 1; i < x.reduced; ++i) {
      const C element = at(i), other = at(best);
      // NaN is more extreme than any number, either way.
      const bool isNaN = element != element, wasNaN = other != other;
      const bool isEqual = element == other || (isNaN && wasNaN);
      const bool beats = isNaN != wasNaN ? isNaN : (x.mode == Mode::argMaximum ? element > other : element < other);
      if (beats || (isEqual && x.last)) best = i;
    }
    static_cast<int64_t*>(output)[line] = best;
    return;
  }
  C total = x.mode == Mode::product ? C{1} : C{0};
  for (int64_t i = 0; i < x.reduced; ++i) {
    const C element = at(i);
    switch (x.mode) {
      case Mode::product: total = detail::productOf(total, element); break;
      case Mode::sumOfSquares: total = detail::sumOf(total, detail::productOf(element, element)); break;
      case Mode::maximum:
        if (i == 0 || element > total || element != element) total = element;
        break;
      case Mode::minimum:
        if (i == 0 || element < total || element != element) total = element;
        break;
      default: total = detail::sumOf(total, element); break;
    }
  }
  if (x.mode == Mode::mean) total = detail::quotient(total, static_cast<C>(x.reduced));
  writeAs<C>(x.type, total, output, line);
}

/** Where the elements of a row or a column lie. */
struct Vector {
  ElementType type;
  int64_t first, stride;
};

/** The product of a row and a column of so many elements. */
template <typename C>
WARPCONV_HOST_DEVICE C dotOf(const Vector& left, const Vector& right, const void* leftData, const void* rightData,
                             int64_t k) {
  C total = 0;
  for (int64_t i = 0; i < k; ++i) {
    const C a = readAs<C>(left.type, leftData, left.first + i * left.stride);
    const C b = readAs<C>(right.type, rightData, right.first + i * right.stride);
    total = detail::sumOf(total, detail::productOf(a, b));
  }
  return total;
}

/** Where the indices of an indexed step point, or -1 where one is out of range. Each index is read once. */
WARPCONV_HOST_DEVICE inline int64_t placeOfIndices(const int64_t* indices, int components, const int64_t* axes,
                                                   const int64_t* strides) {
  int64_t place = 0;
  for (int c = 0; c < components; ++c) {
    const int64_t given = static_cast<const volatile int64_t*>(indices)[c];
    if (given < -axes[c] || given >= axes[c]) return -1;
    place += (given < 0 ? given + axes[c] : given) * strides[c];
  }
  return place;
}

/** What a scatter leaves where `old` was. */
template <typename C>
WARPCONV_HOST_DEVICE C scattered(program::IndexedStep::Mode mode, C old, C value) {
  using Mode = program::IndexedStep::Mode;
  switch (mode) {
    case Mode::add: return detail::sumOf(old, value);
    case Mode::multiply: return detail::productOf(old, value);
    case Mode::minimum: return value < old || value != value ? value : old;
    case Mode::maximum: return value > old || value != value ? value : old;
    default: return value;
  }
}

}  // namespace warpconv::typed
