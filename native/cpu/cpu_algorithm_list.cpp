#include "cpu/cpu_algorithm_list.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "cpu/depthwise/depthwise.h"
#include "cpu/direct/cpu_direct.h"
#include "cpu/formats/formats.h"
#include "cpu/im2col/cpu_im2col.h"
#include "cpu/sconv/sconv.h"
#include "cpu/stem/cpu_stem.h"
#include "cpu/winograd/winograd.h"

namespace warpconv {

std::span<const CpuAlgorithm> cpuAlgorithms() {
  static const CpuAlgorithm kAlgorithms[] = {kDepthwise, kStem, kSconv, kWinograd, kIm2col, kDirect};
  return kAlgorithms;
}

const CpuAlgorithm& cpuAlgorithm(std::string_view name) {
  const auto all = cpuAlgorithms();
  return *std::find_if(all.begin(), all.end(), [&](const CpuAlgorithm& one) { return one.name == name; });
}

std::vector<Candidate> listCandidates(const ConvProblem& problem, const PlanRequest& request, const CpuInfo& cpu) {
  const ConvProblem plain = plainProblem(problem);
  std::vector<Candidate> candidates;
  for (const CpuAlgorithm& algorithm : cpuAlgorithms()) {
    std::optional<std::string> refusal = algorithm.refusal(plain, request.switches);
    if (request.keepsIntegers && !algorithm.keepsIntegers)
      refusal = "computes with fractions of what is an integer here";
    if (!request.variant.empty()) refusal = "has no variants; options.variant is '" + request.variant + "'";
    candidates.push_back(answer(algorithm.name, std::move(refusal), request, [&] {
      return withConversions(algorithm.estimate(plain, cpu, request.switches), problem);
    }));
  }
  return candidates;
}

}  // namespace warpconv
