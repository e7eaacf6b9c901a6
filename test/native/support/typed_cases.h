#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "program/steps.h"
#include "support/typed_elements.h"

/** Steps of elements of any type at random, for the tests of either device. */
namespace warpconv::test {

inline int64_t productOf(const std::vector<int64_t>& extents) {
  int64_t count = 1;
  for (const int64_t extent : extents) count *= extent;
  return count;
}

/** How a box lies in a tensor. */
struct Layout {
  std::vector<int64_t> strides;
  /** Where its first position is, and all elements of the tensor */
  int64_t first = 0, count = 1;
};

struct Layouts {
  /** Whether axes may have the stride 0, be read from their end, and have elements between theirs. */
  bool repeat = false, reverse = false, skip = false;
};

/** In any order of the axes. */
template <typename Random>
Layout makeLayout(const std::vector<int64_t>& extents, const Layouts& kinds, Random& random) {
  std::vector<size_t> order;
  for (size_t axis = 0; axis < extents.size(); ++axis) {
    order.insert(order.begin() + random.from(0, static_cast<int64_t>(axis)), axis);
  }
  const bool isRowMajor = random.maybe();
  Layout made;
  made.strides.assign(extents.size(), 0);
  for (size_t i = extents.size(); i-- > 0;) {
    const size_t axis = isRowMajor ? i : order[i];
    if (kinds.repeat && random.from(0, 2) == 0) continue;
    const bool isReversed = kinds.reverse && random.from(0, 4) == 0;
    made.strides[axis] = isReversed ? -made.count : made.count;
    if (isReversed) made.first += (extents[axis] - 1) * made.count;
    made.count *= extents[axis] + (kinds.skip && random.from(0, 4) == 0 ? 1 : 0);
  }
  return made;
}

/** A function of operands that are broadcast and transposed, with the layout of each. */
struct MapCase {
  program::MapStep step;
  std::vector<Layout> layouts;
};

/** Of up to so many elements, or somewhat more. */
template <typename Random>
MapCase makeMap(size_t operands, int64_t most, Random& random) {
  MapCase made;
  made.step.extents = {1};
  for (int64_t axes = random.from(1, 5); axes > 0; --axes) {
    const int64_t room = std::max<int64_t>(1, most / productOf(made.step.extents));
    const int64_t extent = random.pick({1, 2, 3, 4, 7, 16, 511, 512, 513, 5000, most});
    made.step.extents.push_back(std::min(room, extent));
  }
  made.step.operands.resize(operands);
  for (size_t i = 0; i < operands; ++i) {
    made.layouts.push_back(makeLayout(made.step.extents, {true, true, true}, random));
    made.step.strides.push_back(made.layouts.back().strides);
  }
  return made;
}

struct IndexedCase {
  program::IndexedStep step;
  std::vector<int64_t> indices;
  /** Elements of the tensor of values */
  int64_t valueCount = 1;
  /** Whether it scatters */
  bool scatters() const { return step.mode != program::IndexedStep::Mode::gather; }
};

/**
 * Data of some axes that indices count along, and of others that positions do: the free ones. Serial axes come behind
 * these, along which positions meet where the indices say so.
 */
template <typename Random>
IndexedCase makeIndexed(program::IndexedStep::Mode mode, Random& random) {
  IndexedCase made;
  program::IndexedStep& x = made.step;
  x.mode = mode;
  std::vector<int64_t> dims;
  for (int64_t axes = random.from(1, 4); axes > 0; --axes) dims.push_back(random.from(1, 4));
  // Now and then so many positions that threads share them.
  int64_t large = random.pick({0, 0, 0, 0, 300, 2000});
  const auto indexed = static_cast<size_t>(random.from(0, static_cast<int64_t>(dims.size()) - 1));
  for (size_t axis = dims.size(); axis-- > 0;) {
    if (axis == indexed || random.maybe()) {
      x.axes.push_back(dims[axis]), x.axisStrides.push_back(x.dataCount);
    } else {
      dims[axis] += std::exchange(large, 0);
      x.extents.insert(x.extents.begin(), random.maybe() ? dims[axis] : random.from(1, dims[axis]));
      x.dataStrides.insert(x.dataStrides.begin(), x.dataCount);
    }
    x.dataCount *= dims[axis];
  }
  x.serialAxes = random.from(0, 2);
  for (int64_t i = 0; i < x.serialAxes; ++i) x.extents.push_back(random.from(1, 6)), x.dataStrides.push_back(0);
  const Layout values = makeLayout(x.extents, {made.scatters(), false, !made.scatters()}, random);
  x.valueStrides = values.strides, made.valueCount = values.count;
  const Layout rows = makeLayout(x.extents, {true, false, false}, random);
  x.indexStrides = rows.strides;
  const auto components = static_cast<int64_t>(x.axes.size());
  for (int64_t& one : x.indexStrides) one *= components;
  x.indexCount = rows.count * components;
  for (int64_t i = 0; i < x.indexCount; ++i) {
    const int64_t axis = x.axes[static_cast<size_t>(i % components)];
    made.indices.push_back(random.from(-axis, axis - 1));
  }
  // Gathering, no two positions meet: it is all the same which axes are serial.
  if (!made.scatters()) x.serialAxes = random.from(0, static_cast<int64_t>(x.extents.size()));
  return made;
}

/** Types that models multiply, and what they are multiplied in. */
struct MatmulTypes {
  ElementType compute, left, right, output;
};

inline constexpr MatmulTypes kMatmulTypes[] = {
    {ElementType::int64, ElementType::int8, ElementType::uint8, ElementType::int32},
    {ElementType::int64, ElementType::uint8, ElementType::uint8, ElementType::int32},
    {ElementType::int64, ElementType::int32, ElementType::int32, ElementType::int32},
    {ElementType::int64, ElementType::int64, ElementType::int64, ElementType::int64},
    {ElementType::int64, ElementType::uint32, ElementType::uint32, ElementType::uint32},
    {ElementType::int64, ElementType::int16, ElementType::boolean, ElementType::int16},
    {ElementType::uint64, ElementType::uint64, ElementType::uint64, ElementType::uint64},
    {ElementType::float64, ElementType::float64, ElementType::float64, ElementType::float64},
    {ElementType::float64, ElementType::float32, ElementType::int32, ElementType::float64},
    {ElementType::float64, ElementType::float16, ElementType::bfloat16, ElementType::float16}};

struct TypedMatmulCase {
  program::TypedMatmulStep step;
  Elements left, right;
  int64_t leftFirst = 0, rightFirst = 0;
};

/** Floats are small integers, whose sums are exact in any order. */
template <typename Random>
TypedMatmulCase makeTypedMatmul(const MatmulTypes& types, Random& random) {
  TypedMatmulCase made;
  program::TypedMatmulStep& x = made.step;
  x.compute = types.compute, x.leftType = types.left, x.rightType = types.right, x.outputType = types.output;
  for (int64_t axes = random.pick({0, 0, 1, 2}); axes > 0; --axes) x.batch.push_back(random.from(1, 4));
  x.m = random.pick({1, 2, 3, 5, 17, 40}), x.n = random.pick({1, 2, 3, 5, 16, 33});
  x.k = random.pick({0, 1, 2, 3, 8, 31, 100});
  const auto fill = [&](ElementType type, int64_t rows, int64_t columns, std::vector<int64_t>& strides,
                        Elements& elements) {
    std::vector<int64_t> extents = x.batch;
    // Of no elements nothing is read.
    extents.insert(extents.end(), {std::max<int64_t>(1, rows), std::max<int64_t>(1, columns)});
    const Layout layout = makeLayout(extents, {true, true, true}, random);
    strides = layout.strides;
    elements = isReal(type) ? smallIntegers(type, layout.count, random) : anyNumbers(type, layout.count, random);
    return layout.first;
  };
  made.leftFirst = fill(x.leftType, x.m, x.k, x.leftStrides, made.left);
  made.rightFirst = fill(x.rightType, x.k, x.n, x.rightStrides, made.right);
  return made;
}

}  // namespace warpconv::test
