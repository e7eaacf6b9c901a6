#include <doctest/doctest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "cpu/algorithm/cpu_algorithm.h"
#include "cpu/cpu_algorithm_list.h"
#include "cpu/depthwise/depthwise.h"
#include "cpu/direct/cpu_direct.h"
#include "cpu/im2col/cpu_im2col.h"
#include "cpu/microkernels/microkernel.h"
#include "cpu/sconv/sconv.h"
#include "cpu/sconv/slicing.h"
#include "cpu/stem/cpu_stem.h"
#include "cpu/winograd/winograd.h"
#include "memory/aligned_buffer.h"
#include "support/one_thread.h"
#include "support/prepared.h"
#include "support/reference.h"
#include "support/rounds.h"

using namespace warpconv;

namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

size_t size(int64_t count) { return static_cast<size_t>(count); }

test::Tensors tensorsFor(const ConvProblem& problem, bool withBias, bool withResidual) {
  return {std::vector<float>(size(problem.inputSize())), std::vector<float>(size(problem.weightSize())),
          std::vector<float>(size(withBias ? problem.k : 0)),
          std::vector<float>(size(withResidual ? problem.outputSize() : 0))};
}

const float* orNull(const std::vector<float>& values) { return values.empty() ? nullptr : values.data(); }

/** The machine, and the machine as if it had only narrower instruction sets: every path of the engine. */
std::vector<CpuInfo> cpusToTest() {
  std::vector<CpuInfo> cpus;
  for (const Microkernel* kernel : microkernels()) {
    if (kernel->isa > cpuInfo().isaLevel) continue;
    cpus.push_back(cpuInfo());
    cpus.back().isaLevel = kernel->isa;
  }
  return cpus;
}

/** The oracle and the baseline are plain C++ for all instruction sets. */
bool isPortable(const CpuAlgorithm& algorithm) {
  return algorithm.name == kDirect.name || algorithm.name == kIm2col.name;
}

/** Calls `body(algorithm, cpu)` for every algorithm that takes the problem, with every instruction set that it knows.
 */
template <typename Body>
void forEachPath(const ConvProblem& problem, Body body) {
  const std::vector<CpuInfo> cpus = cpusToTest();
  for (const CpuInfo& cpu : cpus) {
    for (const CpuAlgorithm& algorithm : cpuAlgorithms()) {
      if (algorithm.refusal(problem, {}) || (isPortable(algorithm) && &cpu != &cpus.front())) continue;
      INFO(describe(problem) << ", " << algorithm.name << ", ISA level " << static_cast<int>(cpu.isaLevel));
      body(algorithm, cpu);
    }
  }
}

/** Runs with a guard of NaN around the output and checks that nothing else is written and everything is. */
std::vector<float> convolve(const CpuAlgorithm& algorithm, const CpuInfo& cpu, const ConvProblem& problem,
                            const test::Tensors& tensors, const Activation& activation = {},
                            const sconv::Switches& switches = {}) {
  constexpr size_t kGuard = 64;
  const size_t count = size(problem.outputSize());
  std::vector<float> guarded(count + 2 * kGuard, kNaN);
  const auto prepared =
      test::prepare(algorithm, problem, activation, tensors.weight.data(), orNull(tensors.bias), cpu, switches);
  const Status status = prepared->run({tensors.input.data(), orNull(tensors.residual), guarded.data() + kGuard}, {});
  REQUIRE(status.isOk());
  bool areUntouched = true;
  for (size_t i = 0; i < kGuard; ++i) {
    areUntouched = areUntouched && std::isnan(guarded[i]) && std::isnan(guarded[kGuard + count + i]);
  }
  REQUIRE(areUntouched);
  return {guarded.begin() + kGuard, guarded.end() - kGuard};
}

test::Reference referenceOf(const ConvRequest& request, const ConvProblem& problem, const test::Tensors& tensors) {
  return test::convolveInDouble(request, problem.outputDims(), problem.padding.top, problem.padding.left, tensors);
}

void fill(test::Tensors& tensors, std::mt19937& random, void (*with)(std::vector<float>&, std::mt19937&)) {
  for (auto* values : {&tensors.input, &tensors.weight, &tensors.bias, &tensors.residual}) with(*values, random);
}

/** Equal, NaN for NaN. Not by an assertion for each, which would take longer than what computes them. */
void requireSame(std::span<const float> outputs, const std::vector<double>& expected) {
  REQUIRE(outputs.size() == expected.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    const bool isSame = std::isnan(expected[i]) ? std::isnan(outputs[i]) : double{outputs[i]} == expected[i];
    if (!isSame) FAIL("output " << i << " is " << outputs[i] << ", not " << expected[i]);
  }
}

/** Reals within the fp32 rule. */
void requireClose(std::span<const float> outputs, const test::Reference& expected) {
  REQUIRE(outputs.size() == expected.output.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    const bool isClose = std::abs(double{outputs[i]} - expected.output[i]) <= 4e-6 * expected.bound[i];
    if (!isClose) FAIL("output " << i << " is " << outputs[i] << ", not " << expected.output[i]);
  }
}

/** Floats that begin or end where the readable memory does, so that touching a neighbour ends the program. */
class GuardedFloats {
 public:
  GuardedFloats(const std::vector<float>& values, bool atEnd) : page_(size(sysconf(_SC_PAGESIZE))) {
    const size_t bytes = values.size() * sizeof(float);
    inside_ = (bytes + page_ - 1) / page_ * page_;
    memory_ = static_cast<char*>(
        mmap(nullptr, inside_ + 2 * page_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    REQUIRE(static_cast<void*>(memory_) != MAP_FAILED);
    REQUIRE(mprotect(memory_, page_, PROT_NONE) == 0);
    REQUIRE(mprotect(memory_ + page_ + inside_, page_, PROT_NONE) == 0);
    data_ = reinterpret_cast<float*>(memory_ + page_ + (atEnd ? inside_ - bytes : 0));
    std::copy(values.begin(), values.end(), data_);
  }
  GuardedFloats(const GuardedFloats&) = delete;
  GuardedFloats& operator=(const GuardedFloats&) = delete;
  ~GuardedFloats() { munmap(memory_, inside_ + 2 * page_); }

  float* data() const { return data_; }

 private:
  const size_t page_;
  size_t inside_ = 0;
  char* memory_ = nullptr;
  float* data_ = nullptr;
};

/** Every instruction set, on integers between guards, against the reference clamped by `activation`. */
void checkBetweenGuards(const CpuAlgorithm& algorithm, const ConvRequest& request, const Activation& activation,
                        std::mt19937& random) {
  const ConvProblem problem = makeConvProblem(request).value();
  test::Tensors tensors = tensorsFor(problem, random() % 2 == 0, random() % 2 == 0);
  fill(tensors, random, test::fillWithIntegers);
  std::vector<double> expected = referenceOf(request, problem, tensors).output;
  if (activation.kind == ActivationKind::clip) {
    for (double& one : expected) one = std::clamp(one, double{activation.first}, double{activation.second});
  }
  for (const CpuInfo& cpu : cpusToTest()) {
    const auto prepared =
        test::prepare(algorithm, problem, activation, tensors.weight.data(), orNull(tensors.bias), cpu, {});
    for (const bool atEnd : {false, true}) {
      INFO(describe(problem) << ", ISA level " << static_cast<int>(cpu.isaLevel) << ", at end " << atEnd);
      const GuardedFloats input(tensors.input, atEnd);
      const GuardedFloats residual(tensors.residual, atEnd);
      const GuardedFloats output(std::vector<float>(size(problem.outputSize()), kNaN), atEnd);
      const float* added = tensors.residual.empty() ? nullptr : residual.data();
      REQUIRE(prepared->run({input.data(), added, output.data()}, {}).isOk());
      requireSame({output.data(), expected.size()}, expected);
    }
  }
}

/** Calls `body(switches)` for every combination there is. */
template <typename Body>
void forEachCombination(Body body) {
  using sconv::Presentation, sconv::Schedule;
  const std::optional<Schedule> schedules[] = {{}, Schedule::inputStationary, Schedule::weightStationary};
  const std::optional<Presentation> presentations[] = {{}, Presentation::asTheyLie, Presentation::packed};
  for (const auto& schedule : schedules) {
    for (const auto& presentation : presentations) {
      for (const bool vectorPacking : {true, false}) {
        for (const bool packAhead : {true, false}) body({schedule, presentation, vectorPacking, packAhead});
      }
    }
  }
}

std::string describe(const sconv::Switches& switches) {
  const auto choice = [](const auto& value) { return value ? std::to_string(static_cast<int>(*value)) : "free"; };
  return "schedule " + choice(switches.schedule) + ", presentation " + choice(switches.presentation) +
         (switches.vectorPacking ? "" : ", no vector packing") + (switches.packAhead ? ", packed ahead" : "");
}

/** Random numbers of a seed that is printed, and that WARPCONV_FUZZ_SEED sets. */
class Fuzz {
 public:
  Fuzz() {
    const char* given = std::getenv("WARPCONV_FUZZ_SEED");
    const unsigned seed =
        given != nullptr ? static_cast<unsigned>(std::strtoul(given, nullptr, 10)) : std::random_device{}();
    MESSAGE("WARPCONV_FUZZ_SEED=" << seed);
    random.seed(seed);
  }

  int64_t upTo(int64_t most) { return static_cast<int64_t>(random() % size(most + 1)); }

  /** None, or one that changes integers to integers. */
  Activation activation() {
    constexpr double kBounds[] = {-20.0, 30.0};
    return random() % 2 == 0 ? Activation{} : makeActivation("clip", kBounds).value();
  }

  std::mt19937 random;
};

}  // namespace

namespace {

/** By every algorithm and instruction set: integers exactly, reals within the fp32 rule. */
void checkEveryPath(const ConvRequest& request, std::mt19937& random) {
  const ConvProblem problem = makeConvProblem(request).value();
  test::Tensors tensors = tensorsFor(problem, random() % 2 == 0, random() % 2 == 0);
  forEachPath(problem, [&](const CpuAlgorithm& algorithm, const CpuInfo& cpu) {
    fill(tensors, random, test::fillWithIntegers);
    const test::Reference exact = referenceOf(request, problem, tensors);
    const std::vector<float> integers = convolve(algorithm, cpu, problem, tensors);
    requireSame(integers, exact.output);

    fill(tensors, random, test::fillWithReals);
    const test::Reference real = referenceOf(request, problem, tensors);
    const std::vector<float> reals = convolve(algorithm, cpu, problem, tensors);
    requireClose(reals, real);
  });
}

}  // namespace

ONE_THREAD_TEST_CASE("every algorithm on fuzzed problems: integers exactly, reals within the fp32 rule") {
  Fuzz fuzz;
  for (int round = 0; round < test::played(600); ++round) {
    INFO("round " << round);
    checkEveryPath(test::randomRequest(fuzz.random, 4e4), fuzz.random);
  }
}

ONE_THREAD_TEST_CASE(
    "depthwise around the width of every vector: integers exactly, and nothing beside the tensors is touched") {
  Fuzz fuzz;
  for (const auto& [R, S] : {std::pair{3, 3}, {5, 5}, {3, 5}, {1, 3}, {2, 16}, {2, 17}}) {
    for (const auto& [strideH, strideW] : {std::pair{1, 1}, {2, 2}, {1, 2}, {2, 1}, {3, 3}}) {
      for (int64_t width = 1; width <= 40; ++width) {
        ConvRequest request;
        const int64_t channels = 1 + fuzz.upTo(4);
        const int64_t multiplier = 1 + fuzz.upTo(3) / 3;
        const int64_t dilation = 1 + fuzz.upTo(3) / 3;
        request.inputDims = {1 + fuzz.upTo(1), channels, 1 + fuzz.upTo(8), width};
        request.weightDims = {channels * multiplier, 1, R, S};
        request.groups = channels;
        request.stride = {strideH, strideW};
        request.dilation = {dilation, dilation};
        request.padding = {fuzz.upTo(2), fuzz.upTo(2), fuzz.upTo(2), fuzz.upTo(2)};
        if (!makeConvProblem(request).isOk()) continue;  // a filter larger than the padded input
        checkBetweenGuards(kDepthwise, request, fuzz.activation(), fuzz.random);
      }
    }
  }
}

ONE_THREAD_TEST_CASE("depthwise filters as large as their maps: integers exactly, reals within the fp32 rule") {
  Fuzz fuzz;
  for (const int64_t width : {1, 3, 4, 7, 8, 16, 17, 33}) {
    for (const int64_t height : {1, 5, 8}) {
      ConvRequest request;
      request.groups = 6;
      request.inputDims = {2, 6, height, width};
      request.weightDims = {fuzz.random() % 2 == 0 ? 6 : 12, 1, height, width};
      INFO("maps of " << height << " x " << width);
      checkEveryPath(request, fuzz.random);
    }
  }
}

ONE_THREAD_TEST_CASE(
    "stem around the width of every vector: integers exactly, and nothing beside the tensors is touched") {
  Fuzz fuzz;
  for (const auto& [R, S] : {std::pair{3, 3}, {1, 3}, {3, 1}, {7, 7}, {2, 5}, {4, 16}}) {
    for (const auto& [strideH, strideW] : {std::pair{1, 1}, {2, 2}, {1, 2}, {2, 1}, {3, 3}, {5, 7}}) {
      for (int64_t width = 1; width <= 60; ++width) {
        ConvRequest request;
        const int64_t groups = 1 + fuzz.upTo(3) / 3;
        const int64_t channels = 1 + fuzz.upTo(3);
        request.inputDims = {1 + fuzz.upTo(1), channels * groups, 1 + fuzz.upTo(12), width};
        request.weightDims = {(1 + fuzz.upTo(11)) * groups, channels, R, S};
        request.groups = groups;
        request.stride = {strideH, strideW};
        request.dilation = {1 + fuzz.upTo(3) / 3, 1 + fuzz.upTo(5) / 3};
        request.padding = {fuzz.upTo(4), fuzz.upTo(4), fuzz.upTo(4), fuzz.upTo(20)};
        if (!makeConvProblem(request).isOk()) continue;  // a filter larger than the padded input
        checkBetweenGuards(kStem, request, fuzz.activation(), fuzz.random);
      }
    }
  }
}

ONE_THREAD_TEST_CASE("stem says what it takes") {
  ConvRequest request;
  request.inputDims = {1, 3, 64, 64}, request.weightDims = {8, 3, 3, 3};
  CHECK_FALSE(kStem.refusal(makeConvProblem(request).value(), {}).has_value());
  request.weightDims = {8, 3, 1, 1};
  CHECK(kStem.refusal(makeConvProblem(request).value(), {})->find("1x1") != std::string::npos);
  request.inputDims = {1, 64, 16, 4096}, request.weightDims = {8, 64, 3, 3};
  CHECK(kStem.refusal(makeConvProblem(request).value(), {})->find("fill more") != std::string::npos);
}

ONE_THREAD_TEST_CASE(
    "winograd around the tiles of every vector: integers exactly, and nothing beside the tensors is touched") {
  Fuzz fuzz;
  constexpr int64_t kFilters[] = {1, 4, 7, 8, 13, 16, 17, 32, 33};
  for (int64_t width = 1; width <= 40; ++width) {
    for (int round = 0; round < test::played(4); ++round) {
      ConvRequest request;
      const int64_t filters = kFilters[fuzz.random() % std::size(kFilters)];
      const int64_t groups = 1 + fuzz.upTo(3) / 3;
      const int64_t channels = 8 + fuzz.upTo(2);
      request.inputDims = {1 + fuzz.upTo(1), channels * groups, 1 + fuzz.upTo(8), width};
      request.weightDims = {filters * groups, channels, 3, 3};
      request.groups = groups;
      request.padding = {fuzz.upTo(4), fuzz.upTo(4), fuzz.upTo(4), fuzz.upTo(4)};
      if (!makeConvProblem(request).isOk()) continue;  // a filter larger than the padded input
      checkBetweenGuards(kWinograd, request, fuzz.activation(), fuzz.random);
    }
  }
}

ONE_THREAD_TEST_CASE(
    "strided filters of one tap, enough of them to copy pixels for: integers exactly, and nothing else is touched") {
  Fuzz fuzz;
  for (const auto& [strideH, strideW] : {std::pair{2, 2}, {1, 2}, {2, 1}, {3, 3}, {1, 5}}) {
    for (int64_t width = 1; width <= 20; ++width) {
      ConvRequest request;
      const int64_t groups = 1 + fuzz.upTo(1);
      const int64_t channels = 1 + fuzz.upTo(6);
      request.inputDims = {1 + fuzz.upTo(1), channels * groups, 1 + fuzz.upTo(8), width};
      request.weightDims = {(64 + fuzz.upTo(2)) * groups, channels, 1, 1};
      request.groups = groups;
      request.stride = {strideH, strideW};
      checkBetweenGuards(kSconv, request, fuzz.activation(), fuzz.random);
    }
  }
}

ONE_THREAD_TEST_CASE("maps and filters that just fit a tile, or by one not, are exact") {
  std::mt19937 random(17);
  const auto around = [](int64_t edge) { return std::array{std::max<int64_t>(edge - 1, 1), edge, edge + 1}; };
  const auto check = [&](int64_t columns, int64_t filters, int64_t stride, int64_t window) {
    ConvRequest request;
    request.inputDims = {1, 2, 3, (columns - 1) * stride + 1};
    request.weightDims = {filters, 2, window, window};
    request.stride = {1, stride};
    request.padding = {window / 2, window / 2, window / 2, window / 2};
    const ConvProblem problem = makeConvProblem(request).value();
    REQUIRE(problem.q == columns);
    test::Tensors tensors = tensorsFor(problem, true, true);
    fill(tensors, random, test::fillWithIntegers);
    const test::Reference expected = referenceOf(request, problem, tensors);
    forEachPath(problem, [&](const CpuAlgorithm& algorithm, const CpuInfo& cpu) {
      const std::vector<float> outputs = convolve(algorithm, cpu, problem, tensors);
      requireSame(outputs, expected.output);
    });
  };
  for (const Microkernel* kernel : microkernels()) {
    for (const int64_t columns : around(kernel->windows)) {
      for (const int64_t edge : {kernel->lanes, kernel->filters}) {
        for (const int64_t filters : around(edge)) {
          for (const int64_t stride : {1, 2, 3}) {
            for (const int64_t window : {1, 3}) check(columns, filters, stride, window);
          }
        }
      }
    }
  }
}

ONE_THREAD_TEST_CASE(
    "every combination of sconv's switches is exact on integers, with large caches and with tiny ones") {
  Fuzz fuzz;
  std::mt19937& random = fuzz.random;
  std::map<sconv::Presentation, int> accepted;
  ConvRequest takesAll;
  takesAll.inputDims = {2, 5, 9, 21};
  takesAll.weightDims = {19, 5, 3, 3};
  for (int round = 0; round < test::played(60); ++round) {
    const ConvRequest request = round == 0 ? takesAll : test::randomRequest(random, 4e4);
    const ConvProblem problem = makeConvProblem(request).value();
    test::Tensors tensors = tensorsFor(problem, random() % 2 == 0, random() % 2 == 0);
    fill(tensors, random, test::fillWithIntegers);
    const test::Reference exact = referenceOf(request, problem, tensors);
    for (CpuInfo cpu : cpusToTest()) {
      // Tiny ones make many channel sets and sets of tiles of a small problem.
      if (random() % 2 == 0) cpu.caches = {1024, 4096, 16384};
      forEachCombination([&](const sconv::Switches& switches) {
        if (kSconv.refusal(problem, switches)) return;
        if (switches.presentation) ++accepted[*switches.presentation];
        INFO("round " << round << ", " << describe(problem) << ", ISA level " << static_cast<int>(cpu.isaLevel) << ", "
                      << describe(switches));
        const std::vector<float> outputs = convolve(kSconv, cpu, problem, tensors, {}, switches);
        requireSame(outputs, exact.output);
      });
    }
  }
  CHECK(accepted.size() == 2);
}

ONE_THREAD_TEST_CASE("im2col says how large its matrix is, and has none where the input is one") {
  ConvRequest request;
  request.inputDims = {2, 6, 10, 12};
  request.weightDims = {4, 3, 3, 3};
  request.groups = 2;
  // 3 * 3 * 3 rows and 8 * 10 columns of four bytes.
  CHECK(kIm2col.estimate(makeConvProblem(request).value(), cpuInfo(), {}).workspaceBytes == 27 * 80 * 4);
  request.weightDims = {4, 3, 1, 1};
  CHECK(kIm2col.estimate(makeConvProblem(request).value(), cpuInfo(), {}).workspaceBytes == 0);
  request.padding.left = 1;
  CHECK(kIm2col.estimate(makeConvProblem(request).value(), cpuInfo(), {}).workspaceBytes == 3 * 130 * 4);
}

ONE_THREAD_TEST_CASE("im2col refuses a matrix that no machine holds") {
  ConvRequest request;
  request.inputDims = {1, 1, 1 << 20, 1 << 20};
  request.weightDims = {1, 1, 3, 3};
  const std::optional<std::string> refusal = kIm2col.refusal(makeConvProblem(request).value(), {});
  REQUIRE(refusal.has_value());
  CHECK(refusal->find("9 rows") != std::string::npos);
}

ONE_THREAD_TEST_CASE("activations, on values that include zero, infinities and NaN") {
  // A pointwise filter of one: the output is the activation of the input.
  const std::vector<float> values{-kInfinity, -100.0f, -4.0f, -3.0f, -1.0f, -0.0f,     0.0f,
                                  0.5f,       2.0f,    3.5f,  6.0f,  7.0f,  kInfinity, kNaN};
  ConvRequest request;
  request.inputDims = {1, 1, 1, static_cast<int64_t>(values.size())};
  request.weightDims = {1, 1, 1, 1};
  const ConvProblem problem = makeConvProblem(request).value();
  test::Tensors tensors{values, {1.0f}, {}, {}};

  struct Case {
    const char* name;
    std::vector<double> parameters;
    double (*expected)(double);
    /** Of x, where it is negative: what 1 + erf(x) loses */
    double lost = 0;
  };
  const Case cases[] = {
      {"none", {}, [](double x) { return x; }},
      {"relu", {}, [](double x) { return x < 0 ? 0 : x; }},
      {"relu6", {}, [](double x) { return x < 0   ? 0
                                          : x > 6 ? 6
                                                  : x; }},
      {"leakyRelu", {0.125}, [](double x) { return x < 0 ? 0.125 * x : x; }},
      {"clip", {-2.0, 3.0}, [](double x) { return x < -2  ? -2
                                                  : x > 3 ? 3
                                                          : x; }},
      {"sigmoid", {}, [](double x) { return 1 / (1 + std::exp(-x)); }},
      {"silu", {}, [](double x) { return x / (1 + std::exp(-x)); }},
      {"hardSwish", {}, [](double x) { return x <= -3  ? x * 0.0
                                              : x >= 3 ? x
                                                       : x * (x + 3) / 6; }},
      {"gelu", {}, [](double x) { return x * 0.5 * std::erfc(-x * std::sqrt(0.5)); }, 1.5e-7},
  };
  for (const Case& one : cases) {
    const Activation activation = makeActivation(one.name, one.parameters).value();
    forEachPath(problem, [&](const CpuAlgorithm& algorithm, const CpuInfo& cpu) {
      const std::vector<float> outputs = convolve(algorithm, cpu, problem, tensors, activation);
      for (size_t i = 0; i < values.size(); ++i) {
        const double expected = one.expected(double{values[i]});
        INFO(one.name << "(" << values[i] << ") by " << algorithm.name << " is " << outputs[i]);
        if (std::isnan(expected)) {
          CHECK(std::isnan(outputs[i]));
        } else if (std::isinf(expected)) {
          CHECK(double{outputs[i]} == expected);
        } else {
          const double lost = one.lost * std::min(std::max(0.0, -double{values[i]}), 100.0);
          CHECK(std::abs(double{outputs[i]} - expected) <= 1e-6 * std::max(1e-6, std::abs(expected)) + lost);
        }
      }
    });
  }
}

ONE_THREAD_TEST_CASE("makeActivation refuses names and parameter counts that do not exist") {
  CHECK(makeActivation("swish", {}).status().code() == StatusCode::invalidArgument);
  const std::vector<double> one{1.0};
  CHECK(makeActivation("clip", one).status().code() == StatusCode::invalidArgument);
  CHECK(makeActivation("relu", one).status().code() == StatusCode::invalidArgument);
}

ONE_THREAD_TEST_CASE("an infinite or NaN weight does not reach outputs through padded elements") {
  std::mt19937 random(3);
  // Packed windows, two output rows a tile, one row, and half a row.
  for (int64_t width : {5, 7, 11, 20}) {
    ConvRequest request;
    request.inputDims = {1, 2, 5, width};
    request.weightDims = {3, 2, 3, 3};
    request.padding = {1, 1, 1, 1};
    const ConvProblem problem = makeConvProblem(request).value();
    for (float special : {kInfinity, kNaN}) {
      test::Tensors tensors = tensorsFor(problem, false, false);
      fill(tensors, random, test::fillWithIntegers);
      for (float& value : tensors.input) value = value == 0.0f ? 1.0f : value;
      tensors.weight[0] = special;  // filter 0, channel 0, top left: touches padding in the first row and column
      const test::Reference expected = referenceOf(request, problem, tensors);
      forEachPath(problem, [&](const CpuAlgorithm& algorithm, const CpuInfo& cpu) {
        const std::vector<float> outputs = convolve(algorithm, cpu, problem, tensors);
        requireSame(outputs, expected.output);
      });
    }
  }
}

ONE_THREAD_TEST_CASE("NaN and infinity in the input reach exactly the windows that contain them") {
  ConvRequest request;
  request.inputDims = {1, 8, 7, 19};
  request.weightDims = {9, 8, 3, 3};
  request.padding = {1, 2, 1, 0};
  const ConvProblem problem = makeConvProblem(request).value();
  std::mt19937 random(5);
  for (float special : {kInfinity, -kInfinity, kNaN}) {
    test::Tensors tensors = tensorsFor(problem, true, true);
    fill(tensors, random, test::fillWithIntegers);
    tensors.input[size(19 * 3 + 8)] = special;
    const test::Reference expected = referenceOf(request, problem, tensors);
    forEachPath(problem, [&](const CpuAlgorithm& algorithm, const CpuInfo& cpu) {
      const std::vector<float> outputs = convolve(algorithm, cpu, problem, tensors);
      requireSame(outputs, expected.output);
    });
  }
}

/** 8 channels of 7 x 9, whose last tiles of winograd are cut off, padded by 1: small enough to try every element. */
ConvRequest oddMaps() {
  ConvRequest request;
  request.inputDims = {1, 8, 7, 9};
  request.weightDims = {5, 8, 3, 3};
  request.padding = {1, 1, 1, 1};
  return request;
}

ONE_THREAD_TEST_CASE(
    "winograd: NaN and infinity anywhere in a tile, and pairs of them, reach the windows that contain them") {
  const ConvRequest request = oddMaps();
  const ConvProblem problem = makeConvProblem(request).value();
  std::mt19937 random(19);
  test::Tensors tensors = tensorsFor(problem, true, true);
  fill(tensors, random, test::fillWithIntegers);
  const std::vector<float> ordinary = tensors.input;
  for (const auto& [one, other] : {std::pair{kInfinity, -kInfinity}, {kInfinity, kInfinity}, {kNaN, 1.0f}}) {
    for (size_t element = 0; element < 7 * 9; ++element) {
      INFO("element " << element << " is " << one);
      tensors.input = ordinary;
      tensors.input[element] = one;
      tensors.input[random() % tensors.input.size()] = other;
      const test::Reference expected = referenceOf(request, problem, tensors);
      for (const CpuInfo& cpu : cpusToTest()) {
        requireSame(convolve(kWinograd, cpu, problem, tensors), expected.output);
      }
    }
  }
}

ONE_THREAD_TEST_CASE("winograd: sums that overflow on the way, or filters that do, but no output") {
  const ConvRequest request = oddMaps();
  const ConvProblem problem = makeConvProblem(request).value();
  // Transforms add up to four inputs, and a quarter of nine weights.
  for (const auto& [input, weight] : {std::pair{3e38f, 1e-3f}, {1e-3f, 3e38f}}) {
    test::Tensors tensors = tensorsFor(problem, false, false);
    std::fill(tensors.input.begin(), tensors.input.end(), input);
    std::fill(tensors.weight.begin(), tensors.weight.end(), weight);
    const test::Reference expected = referenceOf(request, problem, tensors);
    for (const CpuInfo& cpu : cpusToTest()) {
      const std::vector<float> outputs = convolve(kWinograd, cpu, problem, tensors);
      requireClose(outputs, expected);
    }
  }
}

ONE_THREAD_TEST_CASE(
    "winograd of the fewest channels it takes, on positive data: at most twice the error of a plain sum") {
  ConvRequest request;
  request.inputDims = {1, 8, 14, 14};
  request.weightDims = {16, 8, 3, 3};
  const ConvProblem problem = makeConvProblem(request).value();
  std::mt19937 random(23);
  test::Tensors tensors = tensorsFor(problem, false, false);
  fill(tensors, random, test::fillWithReals);
  for (auto* values : {&tensors.input, &tensors.weight}) {
    for (float& value : *values) value = std::abs(value);
  }
  const test::Reference expected = referenceOf(request, problem, tensors);
  const auto largestError = [&](const std::vector<float>& outputs) {
    double largest = 0;
    for (size_t i = 0; i < outputs.size(); ++i) {
      REQUIRE(std::isfinite(outputs[i]));
      largest = std::max(largest, std::abs(double{outputs[i]} - expected.output[i]));
    }
    return largest;
  };
  std::vector<float> plain(expected.output.size());
  for (size_t i = 0; i < plain.size(); ++i) {
    const size_t k = i / 144, p = i / 12 % 12, q = i % 12;
    for (size_t e = 0; e < 72; ++e) {
      plain[i] += tensors.input[(e / 9 * 14 + p + e / 3 % 3) * 14 + q + e % 3] * tensors.weight[k * 72 + e];
    }
  }
  for (const CpuInfo& cpu : cpusToTest()) {
    CHECK(largestError(convolve(kWinograd, cpu, problem, tensors)) <= 2 * largestError(plain));
  }
}

ONE_THREAD_TEST_CASE("winograd says what it takes") {
  ConvRequest request = oddMaps();
  CHECK_FALSE(kWinograd.refusal(makeConvProblem(request).value(), {}).has_value());
  request.stride.w = 2;
  CHECK(kWinograd.refusal(makeConvProblem(request).value(), {})->find("3x3 filters at stride 1") != std::string::npos);
  request.stride.w = 1;
  request.inputDims[1] = request.weightDims[1] = 7;
  CHECK(kWinograd.refusal(makeConvProblem(request).value(), {})->find("has 7") != std::string::npos);
}

ONE_THREAD_TEST_CASE("a cancelled run stops and says so") {
  ConvRequest request;
  request.inputDims = {1, 4, 16, 16};
  request.weightDims = {4, 4, 3, 3};
  const ConvProblem problem = makeConvProblem(request).value();
  const test::Tensors tensors = tensorsFor(problem, false, false);
  std::vector<float> output(size(problem.outputSize()));
  Cancellation cancellation;
  cancellation.request();
  forEachPath(problem, [&](const CpuAlgorithm& algorithm, const CpuInfo& cpu) {
    const auto prepared = test::prepare(algorithm, problem, {}, tensors.weight.data(), nullptr, cpu, {});
    CHECK(prepared->run({tensors.input.data(), nullptr, output.data()}, {.cancellation = &cancellation}).code() ==
          StatusCode::aborted);
  });
}

TEST_CASE("any number of threads, and runs that overlap, give bitwise the same output") {
  std::mt19937 random(13);
  const auto problemOf = [](std::array<int64_t, 4> input, std::array<int64_t, 4> weight, int64_t groups) {
    ConvRequest request;
    request.inputDims = input;
    request.weightDims = weight;
    request.padding = {1, 1, 1, 1};
    request.groups = groups;
    return makeConvProblem(request).value();
  };
  // More windows than filters, more filters than windows, groups, more tiles of winograd than its threads share,
  // depthwise of wide maps and of pairs of narrow ones.
  for (const ConvProblem& problem :
       {problemOf({2, 32, 20, 20}, {48, 32, 3, 3}, 1), problemOf({1, 64, 7, 7}, {150, 64, 3, 3}, 1),
        problemOf({1, 32, 30, 30}, {32, 8, 3, 3}, 4), problemOf({2, 64, 32, 32}, {4, 64, 3, 3}, 1),
        problemOf({1, 64, 50, 50}, {64, 1, 3, 3}, 64), problemOf({3, 1255, 7, 7}, {1255, 1, 3, 3}, 1255)}) {
    test::Tensors tensors = tensorsFor(problem, true, false);
    fill(tensors, random, test::fillWithReals);
    const auto check = [&](const CpuAlgorithm& algorithm, const CpuInfo& cpu, const sconv::Switches& switches) {
      const auto prepared =
          test::prepare(algorithm, problem, {}, tensors.weight.data(), tensors.bias.data(), cpu, switches);
      const std::vector<float> expected = convolve(algorithm, cpu, problem, tensors, {}, switches);
      Executor executor(3);
      std::vector<std::vector<float>> outputs(4, std::vector<float>(size(problem.outputSize())));
      std::vector<std::thread> threads;
      for (auto& output : outputs) {
        threads.emplace_back([&] {
          const Status status = prepared->run({tensors.input.data(), nullptr, output.data()}, {.executor = &executor});
          if (!status.isOk()) output.clear();
        });
      }
      for (std::thread& thread : threads) thread.join();
      for (const auto& output : outputs) {
        REQUIRE(output.size() == expected.size());
        CHECK(std::memcmp(output.data(), expected.data(), output.size() * sizeof(float)) == 0);
      }
    };
    forEachPath(problem, [&](const CpuAlgorithm& algorithm, const CpuInfo& cpu) { check(algorithm, cpu, {}); });
    for (const sconv::Schedule schedule : {sconv::Schedule::inputStationary, sconv::Schedule::weightStationary}) {
      check(kSconv, cpuInfo(), {.schedule = schedule, .packAhead = true});
    }
  }
}

ONE_THREAD_TEST_CASE("packed weights are counted while they live") {
  ConvRequest request;
  request.inputDims = {1, 8, 8, 8};
  request.weightDims = {8, 8, 3, 3};
  const ConvProblem problem = makeConvProblem(request).value();
  const test::Tensors tensors = tensorsFor(problem, false, false);
  const int64_t before = AlignedBuffer::bytesInUse();
  forEachPath(problem, [&](const CpuAlgorithm& algorithm, const CpuInfo& cpu) {
    Weights weights(tensors.weight.data(), problem.k, problem.filterSize());
    const auto prepared = algorithm.prepare(problem, {}, {weights, nullptr}, cpu, {});
    CHECK(weights.bytes() >= problem.weightSize() * 4);
    CHECK(AlignedBuffer::bytesInUse() == before + weights.bytes() + prepared->bytes());
  });
  CHECK(AlignedBuffer::bytesInUse() == before);
}
