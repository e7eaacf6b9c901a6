#pragma once

#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "problem/conv_format.h"
#include "support/typed_elements.h"

/** Tensors in any format, as bytes, from the definitions: a wrong stride in the library shows. */
namespace warpconv::test {

/** N images of so many channels and pixels. */
struct TensorExtents {
  int64_t n, channels, area;
  int64_t elements() const { return n * channels * area; }
};

/** What no test writes: two bytes of it are a NaN of either half, four one of float32. */
inline constexpr uint8_t kUntouched = 0xff;

template <typename T>
T elementAt(const uint8_t* from) {
  T element;
  std::memcpy(&element, from, sizeof element);
  return element;
}

inline double valueAt(FloatType type, const uint8_t* from) {
  if (type == FloatType::float16) return valueOfHalf(elementAt<Float16>(from));
  return type == FloatType::bfloat16 ? valueOfHalf(elementAt<BFloat16>(from)) : elementAt<float>(from);
}

inline void putValue(FloatType type, double value, uint8_t* to) {
  const auto put = [&](auto element) { std::memcpy(to, &element, sizeof element); };
  if (type == FloatType::float16) return put(nearestHalf<Float16>(value));
  if (type == FloatType::bfloat16) return put(nearestHalf<BFloat16>(value));
  put(static_cast<float>(value));
}

/** Where element i of NCHW is. */
inline int64_t placeOf(const TensorFormat& format, const TensorExtents& x, int64_t i) {
  if (format.layout == Layout::nchw) return i;
  const int64_t pixel = i % x.area, channel = i / x.area % x.channels, n = i / (x.area * x.channels);
  return (n * x.area + pixel) * (format.pitch == 0 ? x.channels : format.pitch) + channel;
}

/** Memory of a tensor that nothing has been written to. */
inline std::vector<uint8_t> untouched(const TensorFormat& format, const TensorExtents& x) {
  const int64_t gaps = format.pitch == 0 ? 0 : (x.n * x.area - 1) * (format.pitch - x.channels);
  return std::vector<uint8_t>(static_cast<size_t>((x.elements() + gaps) * widthOf(format.type)), kUntouched);
}

/** The same in which only its elements are written: values in the order of NCHW, rounded to its type. */
template <typename Number>
std::vector<uint8_t> laidOut(const TensorFormat& format, const TensorExtents& x, const std::vector<Number>& values) {
  std::vector<uint8_t> bytes = untouched(format, x);
  for (int64_t i = 0; i < x.elements(); ++i) {
    putValue(format.type, values[static_cast<size_t>(i)],
             &bytes[static_cast<size_t>(placeOf(format, x, i) * widthOf(format.type))]);
  }
  return bytes;
}

/** Its elements in the order of NCHW. */
inline std::vector<double> valuesOf(const TensorFormat& format, const TensorExtents& x,
                                    const std::vector<uint8_t>& bytes) {
  std::vector<double> values;
  for (int64_t i = 0; i < x.elements(); ++i) {
    values.push_back(valueAt(format.type, &bytes[static_cast<size_t>(placeOf(format, x, i) * widthOf(format.type))]));
  }
  return values;
}

inline bool isSameElement(FloatType type, const uint8_t* a, const uint8_t* b) {
  if (std::isnan(valueAt(type, a)) && std::isnan(valueAt(type, b))) return true;
  return std::memcmp(a, b, static_cast<size_t>(widthOf(type))) == 0;
}

/**
 * All of a tensor's memory, between its pixels, too.
 *
 * @param mayPad whether pixels may be filled up with zeros to a multiple of eight channels where that is their pitch
 */
inline void requireSameTensor(const TensorFormat& format, const TensorExtents& x, const std::vector<uint8_t>& made,
                              const std::vector<uint8_t>& expected, bool mayPad = false) {
  REQUIRE(made.size() == expected.size());
  const auto width = static_cast<size_t>(widthOf(format.type));
  const bool isPadded = mayPad && format.layout == Layout::nhwc && format.pitch == (x.channels + 7) / 8 * 8;
  for (size_t i = 0; i < made.size() / width; ++i) {
    if (isSameElement(format.type, &made[i * width], &expected[i * width])) continue;
    INFO("element " << i << " of memory is " << valueAt(format.type, &made[i * width]) << " and should be "
                    << valueAt(format.type, &expected[i * width]));
    const bool isPadding = isPadded && static_cast<int64_t>(i) % format.pitch >= x.channels;
    REQUIRE((isPadding && valueAt(format.type, &made[i * width]) == 0));
  }
}

/** Any format of a tensor with so many channels, by a source of random numbers with `from` and `maybe`. */
template <typename Source>
TensorFormat anyFormat(Source& random, int64_t channels) {
  constexpr FloatType kTypes[] = {FloatType::float32, FloatType::float16, FloatType::bfloat16};
  constexpr int64_t kApart[] = {0, 1, 3, 4, 16};
  TensorFormat format{kTypes[random.from(0, 2)], random.maybe() ? Layout::nhwc : Layout::nchw};
  if (format.layout == Layout::nhwc && random.maybe()) {
    format.pitch = random.maybe() ? (channels + 7) / 8 * 8 : channels + kApart[random.from(0, 4)];
  }
  return format;
}

inline std::string shown(const TensorFormat& format) {
  constexpr const char* kNames[] = {"float32", "float16", "bfloat16"};
  return std::string(kNames[static_cast<int>(format.type)]) + (format.layout == Layout::nhwc ? " nhwc" : " nchw") +
         " pitch " + std::to_string(format.pitch);
}

}  // namespace warpconv::test
