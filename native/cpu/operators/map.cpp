#include <algorithm>
#include <array>
#include <memory>

#include "cpu/operators/cpu_operators.h"
#include "cpu/operators/odometer.h"
#include "cpu/operators/ranges.h"
#include "typed/elements.h"
#include "typed/functions.h"

namespace warpconv::operators {
namespace {

/** Elements that are brought, computed and written at once: they stay in the L1 cache. */
constexpr int64_t kValueBlock = 512;

template <typename C>
using Load = void (*)(const void* from, int64_t first, int64_t stride, int64_t count, C* to);
template <typename C>
using Store = void (*)(const C* from, int64_t count, void* to, int64_t first);

/** Loops over one type of elements, which compilers make vectors of. */
template <typename C, ElementType kType>
void loadRow(const void* from, int64_t first, int64_t stride, int64_t count, C* to) {
  if (stride == 0) {
    std::fill_n(to, count, typed::readAs<C>(kType, from, first));
  } else if (stride == 1) {
    for (int64_t i = 0; i < count; ++i) to[i] = typed::readAs<C>(kType, from, first + i);
  } else {
    for (int64_t i = 0; i < count; ++i) to[i] = typed::readAs<C>(kType, from, first + i * stride);
  }
}

template <typename C, ElementType kType>
void storeRow(const C* from, int64_t count, void* to, int64_t first) {
  for (int64_t i = 0; i < count; ++i) typed::writeAs<C>(kType, from[i], to, first + i);
}

/** Calls `body` with a constant of the type. */
template <typename Body>
auto withType(ElementType type, const Body& body) {
  using enum ElementType;
  switch (type) {
    case float32: return body(std::integral_constant<ElementType, float32>{});
    case float64: return body(std::integral_constant<ElementType, float64>{});
    case float16: return body(std::integral_constant<ElementType, float16>{});
    case bfloat16: return body(std::integral_constant<ElementType, bfloat16>{});
    case int8: return body(std::integral_constant<ElementType, int8>{});
    case int16: return body(std::integral_constant<ElementType, int16>{});
    case int32: return body(std::integral_constant<ElementType, int32>{});
    case int64: return body(std::integral_constant<ElementType, int64>{});
    case uint8: return body(std::integral_constant<ElementType, uint8>{});
    case uint16: return body(std::integral_constant<ElementType, uint16>{});
    case uint32: return body(std::integral_constant<ElementType, uint32>{});
    case uint64: return body(std::integral_constant<ElementType, uint64>{});
    case float8e4m3fn: return body(std::integral_constant<ElementType, float8e4m3fn>{});
    case float8e4m3fnuz: return body(std::integral_constant<ElementType, float8e4m3fnuz>{});
    case float8e5m2: return body(std::integral_constant<ElementType, float8e5m2>{});
    case float8e5m2fnuz: return body(std::integral_constant<ElementType, float8e5m2fnuz>{});
    case float8e8m0: return body(std::integral_constant<ElementType, float8e8m0>{});
    case float4e2m1: return body(std::integral_constant<ElementType, float4e2m1>{});
    case int4: return body(std::integral_constant<ElementType, int4>{});
    case uint4: return body(std::integral_constant<ElementType, uint4>{});
    case int2: return body(std::integral_constant<ElementType, int2>{});
    case uint2: return body(std::integral_constant<ElementType, uint2>{});
    case boolean: break;
  }
  return body(std::integral_constant<ElementType, boolean>{});
}

/** What one block of each operand is brought to. */
template <typename C>
using Values = std::array<std::array<C, kValueBlock>, MapStep::kMostOperands>;

template <typename C>
class Mapping {
 public:
  Mapping(const MapStep& step, std::span<const void* const> operands, void* output)
      : step_(step), operands_(operands), output_(output), outer_(step.extents.begin(), step.extents.end() - 1) {
    for (size_t i = 0; i < step.types.size(); ++i) {
      loads_[i] = withType(step.types[i], [](auto type) -> Load<C> { return loadRow<C, type.value>; });
    }
    store_ = withType(step.outputType, [](auto type) -> Store<C> { return storeRow<C, type.value>; });
  }

  /** Elements [begin, end) of the output, row by row of the innermost axis. */
  void run(int64_t begin, int64_t end, Values<C>& values, std::array<C, kValueBlock>& results) const {
    const int64_t row = step_.extents.back();
    while (begin < end) {
      const int64_t along = begin % row;
      const int64_t count = std::min({kValueBlock, end - begin, row - along});
      load(begin / row, along, count, values);
      typed::withFunction<C>(step_.operation, step_.p, step_.q, [&](const auto& function) {
        for (int64_t i = 0; i < count; ++i) {
          const auto at = static_cast<size_t>(i);
          results[at] = function(values[0][at], values[1][at], values[2][at]);
        }
      });
      store_(results.data(), count, output_, begin);
      begin += count;
    }
  }

 private:
  void load(int64_t outer, int64_t along, int64_t count, Values<C>& values) const {
    for (size_t i = 0; i < operands_.size(); ++i) {
      const std::vector<int64_t>& strides = step_.strides[i];
      int64_t first = along * strides.back();
      int64_t left = outer;
      for (size_t axis = outer_.size(); axis-- > 0; left /= outer_[axis]) first += left % outer_[axis] * strides[axis];
      loads_[i](operands_[i], first, strides.back(), count, values[i].data());
    }
  }

  const MapStep& step_;
  const std::span<const void* const> operands_;
  void* const output_;
  const std::span<const int64_t> outer_;
  std::array<Load<C>, MapStep::kMostOperands> loads_{};
  Store<C> store_ = nullptr;
};

}  // namespace

void map(const MapStep& step, std::span<const void* const> operands, void* output, const RunContext& context) {
  typed::withCompute(step.compute, [&](auto like) {
    using C = decltype(like);
    const Mapping<C> mapping(step, operands, output);
    forEachRange(context, elementsOf(step.extents), 4, [&](int64_t begin, int64_t end) {
      const auto values = std::make_unique<Values<C>>();
      std::array<C, kValueBlock> results;
      mapping.run(begin, end, *values, results);
    });
  });
}

}  // namespace warpconv::operators
