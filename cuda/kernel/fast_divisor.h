#pragma once

#include <cstdint>

#include "host_device.h"

namespace warpconv::cuda {

/**
 * Division of 0 <= x < 2^31 by a divisor known before the kernel runs, as a multiplication and a shift (Granlund and
 * Montgomery, 1994): with s = ceil(log2 d) and m = floor(2^32 (2^s - d) / d) + 1, x / d = (floor(x m / 2^32) + x) >> s.
 */
class FastDivisor {
 public:
  FastDivisor() = default;
  /** For 1 <= divisor < 2^31. */
  explicit FastDivisor(int divisor) : divisor_(divisor) {
    while ((uint64_t{1} << shift_) < static_cast<uint64_t>(divisor)) ++shift_;
    const uint64_t excess = (uint64_t{1} << shift_) - static_cast<uint64_t>(divisor);
    multiplier_ = static_cast<uint32_t>((excess << 32) / static_cast<uint64_t>(divisor) + 1);
  }

  WARPCONV_HOST_DEVICE int divisor() const { return divisor_; }

  WARPCONV_HOST_DEVICE int quotient(int x) const {
    const uint32_t unsignedX = static_cast<uint32_t>(x);
    const auto high = static_cast<uint32_t>((uint64_t{unsignedX} * multiplier_) >> 32);
    return static_cast<int>((high + unsignedX) >> shift_);
  }

  /** Leaves the remainder in `x`. */
  WARPCONV_HOST_DEVICE int divide(int& x) const {
    const int result = quotient(x);
    x -= result * divisor_;
    return result;
  }

 private:
  int divisor_ = 1;
  uint32_t multiplier_ = 1;
  uint32_t shift_ = 0;
};

}  // namespace warpconv::cuda
