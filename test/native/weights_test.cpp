#include "weights/weights.h"

#include <doctest/doctest.h>

#include <atomic>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <thread>
#include <vector>

using namespace warpconv;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

struct Copy {
  std::vector<float> elements;
  int64_t bytes() const { return static_cast<int64_t>(elements.size() * sizeof(float)); }
};

std::shared_ptr<const Copy> copyOf(Weights& weights, size_t count, int64_t parameter = 0) {
  return weights
      .form<Copy>({parameter},
                  [&](const float* filters) {
                    return std::shared_ptr<const Copy>(
                        std::make_shared<Copy>(Copy{std::vector<float>(filters, filters + count)}));
                  })
      .value();
}

}  // namespace

TEST_CASE("a form of weights is made once for the same type and parameters") {
  const std::vector<float> filters{1, 2, 3, 4, 5, 6};
  Weights weights(filters.data(), 2, 3);
  CHECK_FALSE(weights.has<Copy>({}));
  CHECK(weights.bytes() == 0);
  const auto first = copyOf(weights, filters.size());
  CHECK(first->elements == filters);
  CHECK(copyOf(weights, filters.size()) == first);
  CHECK(copyOf(weights, filters.size(), 1) != first);
  CHECK(weights.has<Copy>({}));
  CHECK(weights.has<Copy>({1}));
  CHECK_FALSE(weights.has<Copy>({2}));
  CHECK(weights.bytes() == 2 * first->bytes());
}

TEST_CASE("each filter is multiplied by its factor, rounded once") {
  const std::vector<float> filters{1, 1.0f / 3, 3, -4, 5, 6};
  Weights weights(filters.data(), 2, 3, {0.1f, -2});
  CHECK(copyOf(weights, 6)->elements == std::vector<float>{0.1f, 1.0f / 3 * 0.1f, 3 * 0.1f, 8, -10, -12});
  CHECK(weights.largest() == 12);
  const auto part = weights.part(1, 1);
  CHECK(copyOf(*part, 3)->elements == std::vector<float>{8, -10, -12});
}

TEST_CASE("the largest magnitude tells of infinities and NaN") {
  const auto largest = [](std::vector<float> filters, std::vector<float> factors = {}) {
    return Weights(filters.data(), 2, 2, std::move(factors)).largest();
  };
  CHECK(largest({0, -0.0f, 0, 0}) == 0);
  CHECK(largest({1, -7, 3, 2}) == 7);
  CHECK(largest({1, -kInfinity, 3, 2}) == kInfinity);
  CHECK(std::isnan(largest({1, kNaN, kInfinity, 2})));
  CHECK(std::isnan(largest({1, 2, kInfinity, kNaN})));
  CHECK(std::isnan(largest({kInfinity, 2, 1, 1}, {0, 1})));
  CHECK(largest({1e30f, 2, 1, 1}, {1e20f, 1}) == kInfinity);
}

TEST_CASE("what cannot be made is not kept, and can be made later") {
  const std::vector<float> filters{1, 2};
  Weights weights(filters.data(), 1, 2);
  CHECK_THROWS_AS((void)weights.form<Copy>({}, [](const float*) -> std::shared_ptr<const Copy> { throw std::bad_alloc(); }),
                  std::bad_alloc);
  const auto failed = weights.form<Copy>({}, [](const float*) -> Result<std::shared_ptr<const Copy>> {
    return outOfMemory();
  });
  CHECK(failed.status().code() == StatusCode::outOfMemory);
  CHECK_FALSE(weights.has<Copy>({}));
  CHECK(copyOf(weights, 2)->elements == filters);
}

TEST_CASE("forms that nobody has are let go of") {
  const std::vector<float> filters{1, 2};
  Weights weights(filters.data(), 1, 2);
  auto kept = copyOf(weights, 2);
  (void)copyOf(weights, 2, 1);
  weights.trim();
  CHECK(weights.has<Copy>({}));
  CHECK_FALSE(weights.has<Copy>({1}));
  kept.reset();
  weights.trim();
  CHECK(weights.bytes() == 0);
}

TEST_CASE("a store has one object for the same filters, shape and factors") {
  const std::vector<float> filters{1, 2, 3, 4}, others(4);
  const std::vector<float> factors{2, kNaN};
  WeightStore store;
  const auto plain = store.of(filters.data(), 2, 2, {});
  CHECK(store.of(filters.data(), 2, 2, {}) == plain);
  CHECK(store.of(filters.data(), 1, 4, {}) != plain);
  CHECK(store.of(others.data(), 2, 2, {}) != plain);
  const auto scaled = store.of(filters.data(), 2, 2, factors);
  CHECK(scaled != plain);
  const std::vector<float> same = factors;
  CHECK(store.of(filters.data(), 2, 2, same) == scaled);
  (void)copyOf(*plain, 4);
  (void)copyOf(*scaled, 4);
  CHECK(store.bytes() == plain->bytes() + scaled->bytes());
  store.trim();
  CHECK(store.bytes() == 0);
}

TEST_CASE("threads that ask for a form at once get the same, made once") {
  const std::vector<float> filters(1000, 1);
  Weights weights(filters.data(), 10, 100);
  std::atomic<int> made = 0;
  std::vector<std::shared_ptr<const Copy>> forms(8);
  std::vector<std::thread> threads;
  for (auto& form : forms) {
    threads.emplace_back([&] {
      form = weights
                 .form<Copy>({},
                             [&](const float* from) {
                               ++made;
                               return std::shared_ptr<const Copy>(
                                   std::make_shared<Copy>(Copy{std::vector<float>(from, from + 1000)}));
                             })
                 .value();
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(made == 1);
  for (const auto& form : forms) CHECK(form == forms[0]);
}
