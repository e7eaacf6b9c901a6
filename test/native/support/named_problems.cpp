#include "support/named_problems.h"

#include <doctest/doctest.h>

#include <cinttypes>
#include <cstdio>
#include <fstream>

namespace warpconv::test {

std::vector<NamedProblem> namedProblems(int64_t batch) {
  std::ifstream file("bench/layers/gpu-bench.json");
  REQUIRE_MESSAGE(file.is_open(), "start the tests in the repository's root, where bench/layers/gpu-bench.json is");
  std::vector<NamedProblem> problems;
  for (std::string line; std::getline(file, line);) {
    char name[64];
    int64_t c, h, w, k, r, s, stride, padding, groups;
    const char* const row = " [\"%63[^\"]\", %" SCNd64 ", %" SCNd64 ", %" SCNd64 ", %" SCNd64 ", %" SCNd64 ", %" SCNd64
                            ", %" SCNd64 ", %" SCNd64 ", %" SCNd64;
    if (std::sscanf(line.c_str(), row, name, &c, &h, &w, &k, &r, &s, &stride, &padding, &groups) != 10) continue;
    ConvRequest request;
    request.inputDims = {batch, c, h, w};
    request.weightDims = {k, c / groups, r, s};
    request.stride = {stride, stride};
    request.padding = {padding, padding, padding, padding};
    request.groups = groups;
    problems.push_back({name, makeConvProblem(request).value()});
  }
  REQUIRE(problems.size() > 30);
  return problems;
}

}  // namespace warpconv::test
