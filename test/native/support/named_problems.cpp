#include "support/named_problems.h"

#include <doctest/doctest.h>

#include <fstream>
#include <regex>

namespace warpconv::test {

std::vector<NamedProblem> namedProblems(int64_t batch) {
  std::ifstream file("bench/layers/gpu-bench.json");
  REQUIRE_MESSAGE(file.is_open(), "start the tests in the repository's root, where bench/layers/gpu-bench.json is");
  const std::regex row(R"re(\["(\w+)", (\d+), (\d+), (\d+), (\d+), (\d+), (\d+), (\d+), (\d+), (\d+)\])re");
  std::vector<NamedProblem> problems;
  for (std::string line; std::getline(file, line);) {
    std::smatch match;
    if (!std::regex_search(line, match, row)) continue;
    const auto number = [&](size_t i) { return std::stoll(match[i]); };
    ConvRequest request;
    request.inputDims = {batch, number(2), number(3), number(4)};
    request.weightDims = {number(5), number(2) / number(10), number(6), number(7)};
    request.stride = {number(8), number(8)};
    request.padding = {number(9), number(9), number(9), number(9)};
    request.groups = number(10);
    problems.push_back({match[1], makeConvProblem(request).value()});
  }
  REQUIRE(problems.size() > 30);
  return problems;
}

}  // namespace warpconv::test
