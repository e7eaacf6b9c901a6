#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "problem/conv_problem.h"

namespace warpconv::test {

struct NamedProblem {
  std::string name;
  ConvProblem problem;
};

/** The layers of bench/layers/gpu-bench.json, relative to the directory the tests are started in. */
std::vector<NamedProblem> namedProblems(int64_t batch);

}  // namespace warpconv::test
