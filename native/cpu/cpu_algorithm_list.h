#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "backend/answer.h"
#include "cpu/algorithm/cpu_algorithm.h"

namespace warpconv {

/** All algorithms of the CPU in order of preference; the last takes every problem. */
std::span<const CpuAlgorithm> cpuAlgorithms();

/** The one of that name, which must be in the list. */
const CpuAlgorithm& cpuAlgorithm(std::string_view name);

/** Every CPU algorithm's answer, in the order of the list. */
std::vector<Candidate> listCandidates(const ConvProblem& problem, const PlanRequest& request, const CpuInfo& cpu);

}  // namespace warpconv
