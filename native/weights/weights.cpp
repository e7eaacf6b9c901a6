#include "weights/weights.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace warpconv {
namespace {

/** Magnitudes compare as their bits do, NaN above infinity, which the compiler makes vectors of. */
int32_t largestMagnitude(std::span<const float> values) {
  int32_t largest = 0;
  for (const float value : values) largest = std::max(largest, std::bit_cast<int32_t>(value) & 0x7fffffff);
  return largest;
}

}  // namespace

float Weights::largest() const {
  const std::lock_guard lock(mutex_);
  if (largest_) return *largest_;
  float largest = 0;
  for (int64_t k = 0; k < k_ && !std::isnan(largest); ++k) {
    const std::span filter(filters_ + k * filterSize_, static_cast<size_t>(filterSize_));
    const float factor = factors_.empty() ? 1 : std::abs(factors_[static_cast<size_t>(k)]);
    const float magnitude = std::bit_cast<float>(largestMagnitude(filter)) * factor;
    // So that NaN wins.
    if (!(magnitude <= largest)) largest = magnitude;
  }
  largest_ = largest;
  return largest;
}

AlignedBuffer Weights::multiplied() const {
  AlignedBuffer scaled(k_ * filterSize_);
  for (int64_t k = 0; k < k_; ++k) {
    const float factor = factors_[static_cast<size_t>(k)];
    const float* const filter = filters_ + k * filterSize_;
    std::transform(filter, filter + filterSize_, scaled.data() + k * filterSize_,
                   [factor](float element) { return element * factor; });
  }
  return scaled;
}

std::unique_ptr<Weights> Weights::part(int64_t first, int64_t count) const {
  std::vector<float> factors;
  if (!factors_.empty()) factors.assign(factors_.begin() + first, factors_.begin() + first + count);
  return std::make_unique<Weights>(filters_ + first * filterSize_, count, filterSize_, std::move(factors));
}

int64_t Weights::bytes() const {
  const std::lock_guard lock(mutex_);
  int64_t total = 0;
  for (const auto& [key, kept] : forms_) total += kept.bytes;
  return total;
}

void Weights::trim() {
  const std::lock_guard lock(mutex_);
  std::erase_if(forms_, [](const auto& entry) { return entry.second.form.use_count() == 1; });
}

bool mustSkipPadding(const ConvProblem& problem, const Weights& weights) {
  return problem.hasPadding() && !std::isfinite(weights.largest());
}

std::shared_ptr<Weights> WeightStore::of(const float* filters, int64_t k, int64_t filterSize,
                                         std::span<const float> factors) {
  const std::lock_guard lock(mutex_);
  // By their bits: that nan != nan would make an entry anew each time.
  const auto isSame = [](float a, float b) { return std::bit_cast<int32_t>(a) == std::bit_cast<int32_t>(b); };
  const auto [begin, end] = entries_.equal_range(filters);
  for (auto entry = begin; entry != end; ++entry) {
    const Entry& known = entry->second;
    const bool isOfShape = known.k == k && known.filterSize == filterSize;
    if (isOfShape && std::ranges::equal(known.factors, factors, isSame)) return known.weights;
  }
  std::vector<float> copy(factors.begin(), factors.end());
  auto weights = std::make_shared<Weights>(filters, k, filterSize, copy);
  entries_.insert({filters, {k, filterSize, std::move(copy), weights}});
  return weights;
}

int64_t WeightStore::bytes() const {
  const std::lock_guard lock(mutex_);
  int64_t total = 0;
  for (const auto& [filters, entry] : entries_) total += entry.weights->bytes();
  return total;
}

void WeightStore::trim() {
  const std::lock_guard lock(mutex_);
  for (const auto& [filters, entry] : entries_) entry.weights->trim();
}

}  // namespace warpconv
