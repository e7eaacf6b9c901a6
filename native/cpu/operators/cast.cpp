#include <cmath>
#include <limits>
#include <type_traits>

#include "cpu/operators/cpu_operators.h"
#include "cpu/operators/ranges.h"

namespace warpconv::operators {
namespace {

using Type = CastStep::Type;

/** Stored as one byte, of which any but zero is true. */
struct Boolean {
  uint8_t byte;
};

template <typename To, typename From>
To castOne(From value) {
  if constexpr (std::is_same_v<From, Boolean>) {
    return castOne<To>(static_cast<uint8_t>(value.byte != 0));
  } else if constexpr (std::is_same_v<To, Boolean>) {
    return {static_cast<uint8_t>(value != 0)};
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    // C++ leaves what does not fit undefined.
    constexpr From kLow = static_cast<From>(std::numeric_limits<To>::min());
    constexpr From kPastHigh = static_cast<From>(std::numeric_limits<To>::max() / 2 + 1) * 2;
    if (value != value) return 0;
    if (value <= kLow) return std::numeric_limits<To>::min();
    return value >= kPastHigh ? std::numeric_limits<To>::max() : static_cast<To>(value);
  } else {
    return static_cast<To>(value);
  }
}

/** Calls `body` with a value of the C++ type. */
template <typename Body>
void withType(Type type, const Body& body) {
  switch (type) {
    case Type::float32: return body(float{});
    case Type::float64: return body(double{});
    case Type::int8: return body(int8_t{});
    case Type::int16: return body(int16_t{});
    case Type::int32: return body(int32_t{});
    case Type::int64: return body(int64_t{});
    case Type::uint8: return body(uint8_t{});
    case Type::uint16: return body(uint16_t{});
    case Type::uint32: return body(uint32_t{});
    case Type::boolean: return body(Boolean{});
  }
}

template <typename To, typename From>
void castRange(const void* input, void* output, int64_t begin, int64_t end) {
  const auto* source = static_cast<const From*>(input);
  auto* target = static_cast<To*>(output);
  for (int64_t i = begin; i < end; ++i) target[i] = castOne<To>(source[i]);
}

using CastRange = void (*)(const void* input, void* output, int64_t begin, int64_t end);

CastRange castRangeFor(const CastStep& step) {
  CastRange chosen = nullptr;
  withType(step.from,
           [&](auto from) { withType(step.to, [&](auto to) { chosen = castRange<decltype(to), decltype(from)>; }); });
  return chosen;
}

}  // namespace

void cast(const CastStep& step, const void* input, void* output, const RunContext& context) {
  const CastRange range = castRangeFor(step);
  forEachRange(context, step.count, 1, [&](int64_t begin, int64_t end) { range(input, output, begin, end); });
}

}  // namespace warpconv::operators
