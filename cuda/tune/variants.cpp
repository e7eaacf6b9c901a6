#include "cuda/tune/variants.h"

#include <algorithm>

namespace warpconv::cuda {
namespace {

/**
 * Beside an algorithm's own choice, which is usually among them. The models are off by tenths where their variants
 * differ by factors; with more of them tuning would take longer than its budget on large batches.
 */
constexpr size_t kMostNamed = 4;

struct Ranked {
  std::string variant;
  double milliseconds;
};

}  // namespace

std::vector<std::string> promisingVariants(const GpuAlgorithm& algorithm, const GpuRequest& request) {
  std::vector<Ranked> ranking;
  for (const std::string_view name : algorithm.variants) {
    GpuRequest variant = request;
    variant.variant = name;
    if (algorithm.refusal(variant)) continue;
    ranking.push_back({variant.variant, algorithm.estimate(variant).milliseconds});
  }
  std::stable_sort(ranking.begin(), ranking.end(),
                   [](const Ranked& a, const Ranked& b) { return a.milliseconds < b.milliseconds; });
  ranking.resize(std::min(ranking.size(), kMostNamed));
  std::vector<std::string> variants{""};
  for (Ranked& one : ranking) variants.push_back(std::move(one.variant));
  return variants;
}

}  // namespace warpconv::cuda
