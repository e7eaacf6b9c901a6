// Runs layers on one thread without Node.js. bench/cpu/packing.ts reads the time of packing from it.
// bench/cpu/cache_misses.ts runs it in valgrind.
//
//     layer_runs time ROUNDS ALGORITHM…    a line for each layer: for each algorithm, milliseconds and those of packing
//     layer_runs repeat RUNS ALGORITHM     runs every layer so many times
//
// Layers are lines of standard input: the columns of bench/layers, separated by spaces.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "cpu/algorithm/packing_timer.h"
#include "cpu/cpu_algorithm_list.h"
#include "planner/choose.h"

#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace {

using namespace warpconv;

template <typename T>
T valueOrThrow(Result<T> result) {
  if (!result.isOk()) throw std::runtime_error(std::string(result.status().message()));
  return std::move(result.value());
}

ConvProblem toProblem(const std::string& line) {
  std::istringstream row(line);
  int64_t c, h, w, k, groups;
  ConvRequest request;
  auto& [n, channels, height, width] = request.inputDims;
  auto& [filters, groupInputs, r, s] = request.weightDims;
  row >> c >> h >> w >> k >> r >> s >> request.stride.h >> request.stride.w >> request.padding.top >>
      request.padding.left >> request.dilation.h >> request.dilation.w >> groups;
  if (!row) throw std::runtime_error("not a layer: " + line);
  std::tie(n, channels, height, width) = std::tuple(1, c, h, w);
  std::tie(filters, groupInputs) = std::tuple(k, c / groups);
  request.padding.bottom = request.padding.top;
  request.padding.right = request.padding.left;
  request.groups = groups;
  return valueOrThrow(makeConvProblem(request));
}

/** Numbers between -0.5 and 0.5 by a generator that is quick in valgrind, too. */
std::vector<float> randomFloats(int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  uint32_t state = 1;
  for (float& value : values) {
    state = state * 1664525u + 1013904223u;
    value = static_cast<float>(state >> 8) * 0x1p-24f - 0.5f;
  }
  return values;
}

struct Sample {
  double milliseconds;
  double packing;
};

/** A layer prepared for one algorithm. */
class Contender {
 public:
  Contender(const ConvProblem& problem, const std::string& algorithm)
      : input_(randomFloats(problem.inputSize())), output_(static_cast<size_t>(problem.outputSize())) {
    const PlanRequest request{.algorithm = algorithm};
    const CpuInfo cpu = valueOrThrow(usableCpu());
    const std::vector<Candidate> candidates = listCandidates(problem, request, cpu);
    const Candidate& chosen = candidates[valueOrThrow(choose(candidates, request, "cpu"))];
    const std::vector<float> weight = randomFloats(problem.weightSize());
    Weights weights(weight.data(), problem.k, problem.filterSize());
    prepared_ = cpuAlgorithm(chosen.algorithm).prepare(problem, {}, {weights, nullptr}, cpu, {});
  }

  void run() {
    const Status status = prepared_->run({input_.data(), nullptr, output_.data()}, {});
    if (!status.isOk()) throw std::runtime_error(std::string(status.message()));
  }

  /** A turn begins with a run that is not timed: the caches are another's. */
  Sample turn() {
    using Clock = std::chrono::steady_clock;
    constexpr double kLeastMilliseconds = 3;
    run();
    PackingTimer::milliseconds = 0;
    const auto begin = Clock::now();
    double elapsed = 0;
    int runs = 0;
    for (; elapsed < kLeastMilliseconds; ++runs) {
      run();
      elapsed = std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
    }
    return {elapsed / runs, PackingTimer::milliseconds / runs};
  }

 private:
  std::vector<float> input_;
  std::vector<float> output_;
  std::unique_ptr<CpuConvolution> prepared_;
};

Sample median(std::vector<Sample> samples) {
  const auto middle = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2);
  std::nth_element(samples.begin(), middle, samples.end(),
                   [](const Sample& a, const Sample& b) { return a.milliseconds < b.milliseconds; });
  return *middle;
}

/** The median over rounds in which every algorithm has its turn. */
void timeLayer(const ConvProblem& problem, int rounds, const std::vector<std::string>& algorithms) {
  std::vector<Contender> contenders;
  for (const std::string& algorithm : algorithms) contenders.emplace_back(problem, algorithm);
  std::vector<std::vector<Sample>> samples(contenders.size());
  for (int round = 0; round < rounds; ++round) {
    for (size_t i = 0; i < contenders.size(); ++i) samples[i].push_back(contenders[i].turn());
  }
  for (const auto& one : samples) {
    const Sample middle = median(one);
    std::printf("%.6f %.6f ", middle.milliseconds, middle.packing);
  }
  std::printf("\n");
  std::fflush(stdout);
}

void repeatLayer(const ConvProblem& problem, int runs, const std::string& algorithm) {
  Contender contender(problem, algorithm);
  for (int i = 0; i < runs; ++i) contender.run();
}

/** Freed memory stays with the process: a large workspace costs page faults in its first run, not in each. */
void keepMemory() {
#if defined(__GLIBC__)
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
#endif
}

void runAll(const std::vector<std::string>& arguments) {
  const bool times = arguments.size() >= 3 && arguments[0] == "time";
  const bool repeats = arguments.size() == 3 && arguments[0] == "repeat";
  if (!times && !repeats) {
    throw std::runtime_error("usage: layer_runs time ROUNDS ALGORITHM… | repeat RUNS ALGORITHM");
  }
  keepMemory();
  const int count = std::stoi(arguments[1]);
  for (std::string line; std::getline(std::cin, line);) {
    const ConvProblem problem = toProblem(line);
    if (times) {
      timeLayer(problem, count, {arguments.begin() + 2, arguments.end()});
    } else {
      repeatLayer(problem, count, arguments[2]);
    }
  }
}

}  // namespace

int main(int count, char** arguments) {
  try {
    runAll({arguments + 1, arguments + count});
  } catch (const std::exception& error) {
    std::cerr << "layer_runs: " << error.what() << "\n";
    return 1;
  }
}
