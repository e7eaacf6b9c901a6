#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "cpu/algorithm/cpu_algorithm.h"
#include "cpu/cpu_algorithm_list.h"
#include "cpu/sconv/slicing.h"
#include "cuda/tune/promising_variants.h"
#include "executor/executor.h"
#include "planner/choose.h"
#include "support/planned_algorithms.h"
#include "support/prepared.h"
#include "support/reference.h"
#include "support/rounds.h"

// Fuzz of extents at the limits: each problem is refused with a sentence, or planned by every family of the CPU and
// of GPUs, and computed where its tensors are small. WARPCONV_FUZZ_SEED repeats a run, WARPCONV_FUZZ_CASES makes it
// longer.

using namespace warpconv;

namespace {

__extension__ typedef __int128 Wide;

constexpr int64_t kTwo31 = int64_t{1} << 31;

uint64_t fromEnvironment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

/** What is drawn from, one generator a case. */
class Draw {
 public:
  explicit Draw(uint64_t seed) : random_(seed) {}

  uint64_t below(uint64_t count) { return random_() % count; }
  bool oneIn(uint64_t count) { return below(count) == 0; }
  template <typename T>
  T of(std::initializer_list<T> choices) {
    return choices.begin()[below(choices.size())];
  }
  int64_t small() { return of<int64_t>({1, 1, 1, 2, 3, 4, 5, 7, 8, 9, 14, 15, 16, 17, 31, 32, 33}); }
  /** At and around what has room in 16, 31, 32, 40, 53 or 63 bits */
  int64_t extreme() {
    const int64_t base = of<int64_t>({0, 1, int64_t{1} << 15, int64_t{1} << 16, int64_t{1} << 20, int64_t{1} << 26,
                                      int64_t{1} << 30, kTwo31, kTwo31, kTwo31, int64_t{1} << 32, int64_t{1} << 40,
                                      int64_t{1} << 53, int64_t{1} << 62});
    const int64_t value = base + of<int64_t>({-2, -1, -1, 0, 1, 2});
    return oneIn(20) ? -value : value;
  }
  /** What a legal extent may be, seldom a small one. */
  int64_t legalExtreme() {
    return std::clamp<int64_t>(extreme() / of<int64_t>({1, 1, 1, 2, 3, 5, 7}), 1, kTwo31 - 1);
  }
  std::mt19937_64& random() { return random_; }

 private:
  std::mt19937_64 random_;
};

/** An axis of a problem, in place. */
struct Axis {
  int64_t& extent;
  int64_t& filter;
  int64_t& stride;
  int64_t& dilation;
  int64_t& before;
  int64_t& after;
};

/** Makes the axis's windows fit, mostly, and their number few, often. */
void mend(Axis axis, Draw& draw) {
  const Wide reach = Wide{axis.dilation} * (axis.filter - 1) + 1;
  const Wide missing = reach - axis.extent - axis.before - axis.after;
  if (missing > 0 && missing < 2 * Wide{kTwo31} - 2 && !draw.oneIn(8)) {
    axis.before = static_cast<int64_t>(std::min<Wide>(missing, kTwo31 - 1));
    axis.after = static_cast<int64_t>(missing - axis.before) + draw.of<int64_t>({0, 0, 1, 3});
  }
  const Wide windows = axis.stride < 1 ? 0 : (-missing) / axis.stride + 1;
  if (windows > 64 && !draw.oneIn(3)) {
    axis.stride = static_cast<int64_t>(std::clamp<Wide>(-missing / draw.small() + draw.of<int64_t>({-1, 0, 1}), 1,
                                                        kTwo31 - 1));
  }
}

/** Any problem, or one of a shape that some family is for. */
enum class Shape { any, threeByThree, pointwise, depthwise };

ConvRequest drawRequest(Draw& draw) {
  const Shape shape = draw.of({Shape::any, Shape::any, Shape::threeByThree, Shape::pointwise, Shape::depthwise});
  ConvRequest x;
  x.groups = draw.of<int64_t>({1, 1, 1, 2, 3, 8});
  const int64_t groupInputs = draw.small(), groupOutputs = draw.small();
  x.inputDims = {draw.of<int64_t>({1, 1, 2}), x.groups * groupInputs, draw.small(), draw.small()};
  x.weightDims = {x.groups * groupOutputs, groupInputs, draw.of<int64_t>({1, 1, 2, 3, 3, 5, 7}),
                  draw.of<int64_t>({1, 1, 2, 3, 3, 5, 7})};
  x.stride = {draw.of<int64_t>({1, 1, 2, 3}), draw.of<int64_t>({1, 1, 2, 3})};
  x.dilation = {draw.of<int64_t>({1, 1, 2}), draw.of<int64_t>({1, 1, 3})};
  x.padding = {draw.of<int64_t>({0, 1, 3}), draw.of<int64_t>({0, 1, 3}), draw.of<int64_t>({0, 1}),
               draw.of<int64_t>({0, 2})};
  x.paddingMode = draw.of({PaddingMode::given, PaddingMode::given, PaddingMode::given, PaddingMode::same,
                           PaddingMode::valid});
  if (shape == Shape::depthwise) x.weightDims = {x.groups = x.inputDims[1], 1, x.weightDims[2], x.weightDims[3]};
  if (shape == Shape::threeByThree) x.weightDims[2] = x.weightDims[3] = 3;
  if (shape == Shape::threeByThree) x.stride = x.dilation = {1, 1};
  if (shape == Shape::pointwise) x.weightDims[2] = x.weightDims[3] = 1;
  if (shape == Shape::pointwise) x.padding = {};
  // Those after the first five make other shapes of some.
  int64_t* const fields[] = {&x.inputDims[0],  &x.inputDims[1],  &x.inputDims[2],  &x.inputDims[3], &x.weightDims[0],
                             &x.weightDims[1], &x.weightDims[2], &x.weightDims[3], &x.stride.h,     &x.stride.w,
                             &x.dilation.h,    &x.dilation.w,    &x.padding.top,   &x.padding.left, &x.padding.bottom,
                             &x.padding.right, &x.groups};
  const uint64_t choices = shape == Shape::any || draw.oneIn(3) ? std::size(fields) : 5;
  const uint64_t changes = draw.below(5);
  for (uint64_t i = 0; i < changes; ++i) {
    int64_t& field = *fields[draw.below(choices)];
    field = draw.oneIn(9) ? draw.extreme() : draw.legalExtreme();
  }
  // What has to agree does, mostly.
  if (!draw.oneIn(8) && x.groups > 0) {
    const int64_t most = std::max<int64_t>(x.inputDims[1] / x.groups, 1);
    if (x.weightDims[1] > most || draw.oneIn(2)) x.weightDims[1] = most;
    const bool hasRoom = x.weightDims[1] > 0 && std::max(x.weightDims[1], x.groups) < kTwo31;
    if (hasRoom) x.inputDims[1] = x.weightDims[1] * x.groups;
    if (x.groups < kTwo31) x.weightDims[0] = std::max<int64_t>(x.weightDims[0] / x.groups, 1) * x.groups;
  }
  if (shape == Shape::depthwise && draw.oneIn(2)) x.weightDims[1] = 1, x.groups = x.weightDims[0] = x.inputDims[1];
  if (shape != Shape::pointwise && x.paddingMode == PaddingMode::given && !draw.oneIn(4)) {
    mend({x.inputDims[2], x.weightDims[2], x.stride.h, x.dilation.h, x.padding.top, x.padding.bottom}, draw);
    mend({x.inputDims[3], x.weightDims[3], x.stride.w, x.dilation.w, x.padding.left, x.padding.right}, draw);
  }
  return x;
}

std::string text(const ConvRequest& x) {
  std::string out;
  const auto add = [&](const char* name, std::initializer_list<int64_t> values) {
    out += std::string(name) + " ";
    for (const int64_t value : values) out += std::to_string(value) + ",";
    out.back() = ';', out += " ";
  };
  add("input", {x.inputDims[0], x.inputDims[1], x.inputDims[2], x.inputDims[3]});
  add("weight", {x.weightDims[0], x.weightDims[1], x.weightDims[2], x.weightDims[3]});
  add("stride", {x.stride.h, x.stride.w});
  add("dilation", {x.dilation.h, x.dilation.w});
  add("padding", {x.padding.top, x.padding.left, x.padding.bottom, x.padding.right});
  add("mode, groups", {static_cast<int64_t>(x.paddingMode), x.groups});
  return out;
}

/** Windows and padding of an axis by the definition in 128 bits. */
struct Windows {
  Wide count, before, after;
};

Windows windowsOf(const ConvRequest& x, bool rows) {
  const Wide extent = x.inputDims[rows ? 2 : 3], filter = x.weightDims[rows ? 2 : 3];
  const Wide stride = rows ? x.stride.h : x.stride.w, reach = (filter - 1) * (rows ? x.dilation.h : x.dilation.w) + 1;
  Wide before = rows ? x.padding.top : x.padding.left, after = rows ? x.padding.bottom : x.padding.right;
  if (x.paddingMode == PaddingMode::valid) before = after = 0;
  if (x.paddingMode == PaddingMode::same) {
    const Wide count = (extent - 1) / stride + 1;
    const Wide total = std::max<Wide>((count - 1) * stride + reach - extent, 0);
    before = total / 2, after = total - before;
  }
  const Wide room = extent + before + after - reach;
  return {room < 0 ? Wide{0} : room / stride + 1, before, after};
}

/** Whether a convolution is within the limits that docs and errors state, by arithmetic of its own. */
bool isLegal(const ConvRequest& x) {
  const auto lies = [](Wide value, Wide least) { return value >= least && value < kTwo31; };
  for (const int64_t dim : x.inputDims) {
    if (!lies(dim, 1)) return false;
  }
  for (const int64_t dim : x.weightDims) {
    if (!lies(dim, 1)) return false;
  }
  for (const int64_t one : {x.stride.h, x.stride.w, x.dilation.h, x.dilation.w, x.groups}) {
    if (!lies(one, 1)) return false;
  }
  for (const int64_t one : {x.padding.top, x.padding.left, x.padding.bottom, x.padding.right}) {
    if (!lies(one, 0)) return false;
  }
  if (x.inputDims[1] % x.groups != 0 || x.weightDims[0] % x.groups != 0) return false;
  if (x.weightDims[1] != x.inputDims[1] / x.groups) return false;
  const Windows rows = windowsOf(x, true), columns = windowsOf(x, false);
  for (const Windows& axis : {rows, columns}) {
    if (!lies(axis.count, 1) || !lies(axis.before, 0) || !lies(axis.after, 0)) return false;
  }
  const auto fits = [](std::initializer_list<Wide> dims) {
    Wide elements = 1;
    for (const Wide dim : dims) {
      elements *= dim;
      if (elements > Wide{1} << 40) return false;
    }
    return true;
  };
  return fits({x.inputDims[0], x.inputDims[1], x.inputDims[2], x.inputDims[3]}) &&
         fits({x.weightDims[0], x.weightDims[1], x.weightDims[2], x.weightDims[3]}) &&
         fits({x.inputDims[0], x.weightDims[0], rows.count, columns.count});
}

/** Planning that computes for so long loops over an extent: the slowest takes some milliseconds. */
constexpr double kHangMilliseconds = 5000;

/** Times calls of one kind by the processor's time, which other programs leave alone, and keeps the slowest. */
class Slowest {
 public:
  template <typename Call>
  auto time(const std::string& what, const Call& call) {
    const std::clock_t begin = std::clock();
    auto result = call();
    const double taken = 1e3 * static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
    if (taken > milliseconds_) milliseconds_ = taken, what_ = what;
    REQUIRE(taken < kHangMilliseconds);
    return result;
  }
  void print(const std::string& kind) const {
    MESSAGE(kind << ": the slowest took " << milliseconds_ << " ms, " << what_);
  }

 private:
  double milliseconds_ = 0;
  std::string what_;
};

void requireSane(const Estimate& estimate) {
  REQUIRE(std::isfinite(estimate.milliseconds));
  REQUIRE(estimate.milliseconds >= 0);
  REQUIRE(estimate.workspaceBytes >= 0);
  for (const auto& [name, extent] : estimate.tiles) {
    INFO(name);
    REQUIRE(extent >= 0);
  }
  if (!estimate.considered) return;
  for (const ConsideredKernel& kernel : estimate.considered()) {
    INFO(kernel.name);
    for (const auto& [name, value] : kernel.figures) {
      INFO(name);
      REQUIRE(std::isfinite(value));
      REQUIRE(value >= 0);
    }
  }
}

CpuInfo drawCpu(Draw& draw) {
  CpuInfo cpu = cpuInfo();
  cpu.isaLevel = std::min(cpu.isaLevel, draw.of({Isa::portable, Isa::avx2, Isa::avx512}));
  if (draw.oneIn(3)) cpu.caches = {0, 0, 0};
  if (draw.oneIn(3)) cpu.caches = {1024, 1024, 1024};
  if (draw.oneIn(9)) cpu.caches.l3 = int64_t{1} << 40;
  return cpu;
}

sconv::Switches drawSwitches(Draw& draw) {
  sconv::Switches switches;
  if (draw.oneIn(2)) return switches;
  if (draw.oneIn(2)) switches.schedule = draw.of({sconv::Schedule::inputStationary, sconv::Schedule::weightStationary});
  if (draw.oneIn(2)) switches.presentation = draw.of({sconv::Presentation::asTheyLie, sconv::Presentation::packed});
  switches.vectorPacking = draw.oneIn(2);
  switches.packAhead = draw.oneIn(2);
  return switches;
}

constexpr int64_t kMostElements = 1 << 14;
constexpr double kMostMultiplyAdds = 1e6;
constexpr int64_t kMostWorkspaceBytes = int64_t{1} << 26;

/** Small enough to compute by the definition. */
bool isSmall(const ConvProblem& x) {
  return std::max({x.inputSize(), x.weightSize(), x.outputSize()}) <= kMostElements &&
         x.multiplyAdds() <= kMostMultiplyAdds;
}

/** Small integers, so that every sum is exact in float: by winograd within its rounding. */
void requireRight(const ConvRequest& request, const ConvProblem& problem, const CpuAlgorithm& algorithm,
                  const CpuInfo& cpu, const sconv::Switches& switches, Draw& draw, Executor& executor) {
  std::mt19937 random(static_cast<unsigned>(draw.below(1u << 31)));
  test::Tensors tensors{std::vector<float>(static_cast<size_t>(problem.inputSize())),
                        std::vector<float>(static_cast<size_t>(problem.weightSize())),
                        std::vector<float>(static_cast<size_t>(problem.k)),
                        {}};
  for (auto* values : {&tensors.input, &tensors.weight, &tensors.bias}) test::fillWithIntegers(*values, random);
  const Windows rows = windowsOf(request, true), columns = windowsOf(request, false);
  const auto expected = test::convolveInDouble(
      request, {problem.n, problem.k, static_cast<int64_t>(rows.count), static_cast<int64_t>(columns.count)},
      static_cast<int64_t>(rows.before), static_cast<int64_t>(columns.before), tensors);
  std::vector<float> output(expected.output.size(), std::numeric_limits<float>::quiet_NaN());
  const auto prepared = test::prepare(algorithm, problem, {}, tensors.weight.data(), tensors.bias.data(), cpu, switches);
  const RunContext context{draw.oneIn(2) ? &executor : nullptr, nullptr};
  REQUIRE(prepared->run({tensors.input.data(), nullptr, output.data()}, context).isOk());
  const double budget = std::string_view(algorithm.name) == "winograd" ? 4e-6 : 0;
  for (size_t i = 0; i < output.size(); ++i) {
    const bool agrees = std::abs(double{output[i]} - expected.output[i]) <= budget * expected.bound[i];
    if (!agrees) FAIL("output " << i << " is " << output[i] << " instead of " << expected.output[i]);
  }
}

/** An H200, an A100, a laptop's Turing, a Blackwell, the smallest there could be, and one that tells nothing else. */
const cuda::GpuTraits kDevices[] = {
    {90, 132, 65536, 228 * 1024, 227 * 1024, int64_t{60} << 20, 66.9e12, 4.9e12},
    {80, 108, 65536, 164 * 1024, 163 * 1024, int64_t{40} << 20, 19.5e12, 1.6e12},
    {75, 14, 65536, 64 * 1024, 64 * 1024, int64_t{1} << 20, 3e12, 0.13e12},
    {120, 188, 65536, 100 * 1024, 99 * 1024, int64_t{128} << 20, 125e12, 1.8e12},
    {90, 1, 65536, 228 * 1024, 227 * 1024, int64_t{1} << 20, 0.5e12, 0.1e12},
    cuda::withoutGaps({.computeCapability = 90})};

}  // namespace

TEST_CASE("problems of extreme extents are refused with a sentence, or planned and computed by every family") {
  const uint64_t firstSeed = fromEnvironment("WARPCONV_FUZZ_SEED", std::random_device()());
  const uint64_t cases = fromEnvironment("WARPCONV_FUZZ_CASES", test::played(2000));
  MESSAGE("WARPCONV_FUZZ_SEED=" << firstSeed << ", " << cases << " cases");
  Executor executor(2);
  Slowest onCpu, onGpu, preparing;
  std::map<std::string, int64_t> counts;
  for (uint64_t seed = firstSeed; seed < firstSeed + cases; ++seed) {
    Draw draw(seed);
    const ConvRequest request = drawRequest(draw);
    const std::string what = "WARPCONV_FUZZ_SEED=" + std::to_string(seed) + " " + text(request);
    INFO(what);
    const Result<ConvProblem> made = makeConvProblem(request);
    REQUIRE(made.isOk() == isLegal(request));
    if (!made.isOk()) {
      REQUIRE(made.status().code() == StatusCode::invalidArgument);
      REQUIRE(made.status().message().find(' ') != std::string::npos);
      ++counts["refused"];
      continue;
    }
    const ConvProblem& problem = made.value();
    REQUIRE(Wide{problem.p} == windowsOf(request, true).count);
    REQUIRE(Wide{problem.q} == windowsOf(request, false).count);
    ++counts["legal"];

    const CpuInfo cpu = drawCpu(draw);
    const sconv::Switches switches = drawSwitches(draw);
    for (const CpuAlgorithm& algorithm : cpuAlgorithms()) {
      INFO(algorithm.name << ", ISA level " << static_cast<int>(cpu.isaLevel));
      const auto refusal = onCpu.time(what + algorithm.name, [&] { return algorithm.refusal(problem, switches); });
      if (refusal) {
        REQUIRE(refusal->find(' ') != std::string::npos);
        continue;
      }
      const Estimate estimate =
          onCpu.time(what + algorithm.name, [&] { return algorithm.estimate(problem, cpu, switches); });
      requireSane(estimate);
      ++counts[std::string(algorithm.name) + " planned"];
      if (problem.weightSize() <= kMostElements) {
        // Whatever the output's extents: a plan may be made and never run.
        const std::vector<float> ones(static_cast<size_t>(problem.weightSize()), 1.0f);
        (void)preparing.time(what + algorithm.name,
                             [&] { return test::prepare(algorithm, problem, {}, ones.data(), nullptr, cpu, switches); });
        ++counts[std::string(algorithm.name) + " prepared"];
      }
      if (!isSmall(problem) || estimate.workspaceBytes > kMostWorkspaceBytes) continue;
      requireRight(request, problem, algorithm, cpu, switches, draw, executor);
      ++counts[std::string(algorithm.name) + " computed"];
    }

    cuda::GpuRequest asked{problem, {}, "", kDevices[draw.below(std::size(kDevices))]};
    for (const cuda::GpuAlgorithm& family : test::kPlannedAlgorithms) {
      const auto& variants = family.variants;
      // Those that say what format they compute in are asked for halves.
      constexpr TensorFormat kHalves{FloatType::float16, Layout::nhwc};
      const bool isOfHalves = family.format != nullptr;
      asked.precision = isOfHalves ? Precision::fp16 : Precision::fp32;
      asked.problem.format = isOfHalves ? ConvFormat{kHalves, kHalves, kHalves} : ConvFormat{};
      if (isOfHalves) asked.problem.format = family.format(asked);
      asked.variant = variants.empty() || draw.oneIn(2) ? "" : std::string(variants[draw.below(variants.size())]);
      INFO("GPU " << family.name << " " << asked.variant << ", capability " << asked.traits.computeCapability);
      const auto refusal = onGpu.time(what + family.name, [&] { return family.refusal(asked); });
      if (refusal) {
        REQUIRE(refusal->find(' ') != std::string::npos);
        continue;
      }
      requireSane(onGpu.time(what + family.name, [&] { return family.estimate(asked); }));
      ++counts[std::string("GPU ") + family.name + " planned"];
      const Weights none(nullptr, problem.k, problem.filterSize());
      for (const cuda::FilterForm& form : family.forms(asked, none)) {
        REQUIRE(form.bytes >= (isOfHalves ? 2 : 4) * problem.weightSize());
      }
      if (draw.oneIn(20)) (void)cuda::promisingVariants(family, asked);
    }
  }
  onCpu.print("planning on the CPU");
  onGpu.print("planning on a GPU");
  preparing.print("packing weights");
  for (const auto& [name, count] : counts) MESSAGE(name << ": " << count);
  if (cases >= 1000) {
    for (const CpuAlgorithm& algorithm : cpuAlgorithms()) CHECK(counts[std::string(algorithm.name) + " computed"] > 0);
    for (const cuda::GpuAlgorithm& family : test::kPlannedAlgorithms) {
      CHECK(counts[std::string("GPU ") + family.name + " planned"] > 0);
    }
  }
}
