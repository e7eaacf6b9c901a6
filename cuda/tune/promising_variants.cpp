#include "cuda/tune/promising_variants.h"

#include <algorithm>

#include "cuda/formats/conversions.h"

namespace warpconv::cuda {
namespace {

/**
 * The models are off by tenths where their variants differ by factors; with more of them tuning would take longer than
 * its budget on large batches.
 */
constexpr size_t kMostNamed = 4;

struct Ranked {
  std::string variant;
  Estimate estimate;
};

/** Whether one of them is the kernel of which that is said, by all that is said before anything is prepared. */
bool isAmong(const std::vector<Ranked>& ranking, const Estimate& own) {
  return std::any_of(ranking.begin(), ranking.end(), [&](const Ranked& one) {
    return one.estimate.milliseconds == own.milliseconds && one.estimate.workspaceBytes == own.workspaceBytes &&
           one.estimate.tiles == own.tiles;
  });
}

}  // namespace

std::vector<std::string> promisingVariants(const GpuAlgorithm& algorithm, const GpuRequest& request) {
  std::vector<Ranked> ranking;
  for (const std::string_view name : algorithm.variants) {
    GpuRequest variant = request;
    variant.variant = name;
    if (refusalOf(algorithm, variant)) continue;
    ranking.push_back({variant.variant, estimateOf(algorithm, variant)});
  }
  std::stable_sort(ranking.begin(), ranking.end(), [](const Ranked& a, const Ranked& b) {
    return a.estimate.milliseconds < b.estimate.milliseconds;
  });
  ranking.resize(std::min(ranking.size(), kMostNamed));
  std::vector<std::string> variants;
  if (!refusalOf(algorithm, request) && !isAmong(ranking, estimateOf(algorithm, request))) variants.emplace_back();
  for (Ranked& one : ranking) variants.push_back(std::move(one.variant));
  return variants;
}

}  // namespace warpconv::cuda
