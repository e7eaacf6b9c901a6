#include "cuda/kernel/fast_divisor.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

using warpconv::cuda::FastDivisor;

namespace {

void check(int x, int divisor) {
  const FastDivisor by(divisor);
  INFO(x << " / " << divisor);
  REQUIRE(by.quotient(x) == x / divisor);
  int remainder = x;
  REQUIRE(by.divide(remainder) == x / divisor);
  REQUIRE(remainder == x % divisor);
}

}  // namespace

TEST_CASE("division by multiplication is exact around multiples of the divisor, and at the largest dividend") {
  constexpr int64_t kLargest = 2147483647;
  for (const int divisor : {1, 2, 3, 5, 7, 28, 31, 32, 33, 64, 641, 65535, 65536, 65537, 1 << 30, (1 << 30) + 1,
                            static_cast<int>(kLargest)}) {
    for (const int x : {0, 1, divisor - 1, divisor, static_cast<int>(kLargest - 1), static_cast<int>(kLargest)}) {
      check(x, divisor);
    }
    for (int64_t x = divisor; x <= kLargest; x += (x >> 3) + divisor) {
      check(static_cast<int>(x - 1), divisor);
      check(static_cast<int>(x / divisor * divisor), divisor);
    }
  }
}

TEST_CASE("division by multiplication is exact for random operands") {
  std::mt19937 random(3);
  for (int round = 0; round < 100000; ++round) {
    const int x = static_cast<int>(random() >> 1);
    const auto bits = random() % 31;
    check(x, std::max(1, static_cast<int>(random() >> 1 >> bits)));
  }
}
