#include "cuda/planning/packed_choice.h"

#include <optional>

#include "weights/second_form.h"

namespace warpconv::cuda {
namespace {

/** The fastest variant of an algorithm whose filters are there; empty for its own choice. */
std::optional<std::string> packedVariant(const GpuAlgorithm& algorithm, const GpuRequest& request,
                                         const Weights& weights) {
  if (areIn(algorithm.forms(request, weights), weights)) return "";
  return algorithm.packedVariant == nullptr ? std::nullopt : algorithm.packedVariant(request, weights);
}

}  // namespace

PackedChoice choosePacked(std::span<const GpuAlgorithm> algorithms, const std::vector<Candidate>& candidates,
                          size_t fastest, const PlanRequest& asked, const GpuRequest& request,
                          const Weights& weights) {
  PackedChoice choice{fastest, request.variant, candidates[fastest]};
  if (!request.variant.empty() || weights.bytes() == 0) return choice;
  if (areIn(algorithms[fastest].forms(request, weights), weights)) return choice;
  const bool isOpen = asked.algorithm == "auto" || asked.algorithm == "tune";
  double limit = kLeastGainOfSecondForm * choice.candidate.estimate.milliseconds;
  for (size_t i = 0; i < algorithms.size(); ++i) {
    const GpuAlgorithm& algorithm = algorithms[i];
    if (!candidates[i].accepts() || !(isOpen || i == fastest)) continue;
    const std::optional<std::string> variant = packedVariant(algorithm, request, weights);
    if (!variant) continue;
    GpuRequest packed = request;
    packed.variant = *variant;
    Candidate candidate =
        answer(algorithm.name, algorithm.refusal(packed), asked, [&] { return algorithm.estimate(packed); });
    if (!candidate.accepts() || candidate.estimate.milliseconds >= limit) continue;
    limit = candidate.estimate.milliseconds;
    choice = {i, *variant, std::move(candidate)};
  }
  return choice;
}

}  // namespace warpconv::cuda
