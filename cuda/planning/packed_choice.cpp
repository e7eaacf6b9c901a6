#include "cuda/planning/packed_choice.h"

#include <optional>

#include "cuda/formats/conversions.h"
#include "weights/second_form.h"

namespace warpconv::cuda {

PackedChoice choosePacked(std::span<const GpuAlgorithm> algorithms, const std::vector<Candidate>& candidates,
                          size_t fastest, const PlanRequest& asked, const GpuRequest& request,
                          const Weights& weights) {
  PackedChoice choice{fastest, request.variant, candidates[fastest]};
  if (!request.variant.empty() || weights.bytes() == 0) return choice;
  if (areIn(formsOf(algorithms[fastest], request, weights), weights)) return choice;
  const bool isOpen = asked.algorithm == "auto" || asked.algorithm == "tune";
  double limit = kLeastGainOfSecondForm * choice.candidate.estimate.milliseconds;
  for (size_t i = 0; i < algorithms.size(); ++i) {
    const GpuAlgorithm& algorithm = algorithms[i];
    if (!candidates[i].accepts() || !(isOpen || i == fastest)) continue;
    const std::optional<std::string> variant = packedVariantOf(algorithm, request, weights);
    if (!variant) continue;
    GpuRequest packed = request;
    packed.variant = *variant;
    Candidate candidate =
        answer(algorithm.name, refusalOf(algorithm, packed), asked, [&] { return estimateOf(algorithm, packed); });
    if (!candidate.accepts() || candidate.estimate.milliseconds >= limit) continue;
    limit = candidate.estimate.milliseconds;
    choice = {i, *variant, std::move(candidate)};
  }
  return choice;
}

}  // namespace warpconv::cuda
