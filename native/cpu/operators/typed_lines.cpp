#include <algorithm>
#include <numeric>
#include <vector>

#include "cpu/operators/cpu_operators.h"
#include "cpu/operators/odometer.h"
#include "cpu/operators/ranges.h"
#include "typed/work.h"

namespace warpconv::operators {
namespace {

/** The places of the first `count` elements of one line in their order. */
template <typename C>
void sortLine(const SortStep& x, const void* input, int64_t* output, int64_t line, std::vector<C>& elements,
              std::vector<int64_t>& places) {
  const int64_t outer = line / x.inner, column = line % x.inner;
  for (int64_t i = 0; i < x.length; ++i) {
    elements[static_cast<size_t>(i)] = typed::readAs<C>(x.type, input, (outer * x.length + i) * x.inner + column);
  }
  std::iota(places.begin(), places.end(), 0);
  const auto precedes = [&](int64_t a, int64_t b) {
    const C first = elements[static_cast<size_t>(a)], second = elements[static_cast<size_t>(b)];
    if (typed::isBefore(first, second, x.greatest)) return true;
    return a < b && !typed::isBefore(second, first, x.greatest);
  };
  std::partial_sort(places.begin(), places.begin() + x.count, places.end(), precedes);
  for (int64_t i = 0; i < x.count; ++i) {
    output[(outer * x.count + i) * x.inner + column] = places[static_cast<size_t>(i)];
  }
}

}  // namespace

void sort(const SortStep& step, const void* input, int64_t* output, const RunContext& context) {
  typed::withCompute(step.type, [&](auto like) {
    using C = decltype(like);
    forEachRange(context, step.outer * step.inner, 16 * step.length, [&](int64_t begin, int64_t end) {
      std::vector<C> elements(static_cast<size_t>(step.length));
      std::vector<int64_t> places(static_cast<size_t>(step.length));
      for (int64_t line = begin; line < end; ++line) sortLine<C>(step, input, output, line, elements, places);
    });
  });
}

void scan(const ScanStep& step, const void* input, void* output, const RunContext& context) {
  typed::withCompute(step.type, [&](auto like) {
    forEachRange(context, step.outer * step.inner, 4 * step.length, [&](int64_t begin, int64_t end) {
      for (int64_t line = begin; line < end; ++line) typed::scanLine<decltype(like)>(step, input, output, line);
    });
  });
}

void typedReduce(const TypedReduceStep& step, const void* input, void* output, const RunContext& context) {
  typed::withCompute(step.type, [&](auto like) {
    forEachRange(context, step.outer * step.inner, 4 * step.reduced, [&](int64_t begin, int64_t end) {
      for (int64_t line = begin; line < end; ++line) typed::reduceLine<decltype(like)>(step, input, output, line);
    });
  });
}

void typedMatmul(const TypedMatmulStep& step, const void* left, const void* right, void* output,
                 const RunContext& context) {
  std::vector<int64_t> extents = step.batch;
  extents.insert(extents.end(), {step.m, step.n});
  // Of the operands, with the axis that is added up left out.
  std::vector<int64_t> leftStrides = step.leftStrides, rightStrides = step.rightStrides;
  const int64_t leftStep = leftStrides.back(), rightStep = rightStrides[step.batch.size()];
  leftStrides.back() = 0;
  rightStrides[step.batch.size()] = 0;
  typed::withCompute(step.compute, [&](auto like) {
    using C = decltype(like);
    forEachRange(context, elementsOf(extents), 4 * step.k, [&](int64_t begin, int64_t end) {
      Odometer<2> at(extents, {leftStrides, rightStrides}, begin);
      for (int64_t i = begin; i < end; ++i, at.next()) {
        const typed::Vector row{step.leftType, at.offset(0), leftStep}, column{step.rightType, at.offset(1), rightStep};
        typed::writeAs<C>(step.outputType, typed::dotOf<C>(row, column, left, right, step.k), output, i);
      }
    });
  });
}

}  // namespace warpconv::operators
