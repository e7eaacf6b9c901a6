#include "cuda/shuffle/shuffle_plan.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "cuda/shuffle/shuffle.h"
#include "divide.h"

namespace warpconv::cuda {
namespace {

bool isUndilated(const ConvProblem& x) { return x.dilation.h == 1 && x.dilation.w == 1; }

bool hasSmallSquareFilter(const ConvProblem& x) { return x.r == x.s && (x.s == 3 || x.s == 5 || x.s == 7); }

bool isSquareAndUndilated(const ConvProblem& x) {
  return hasSmallSquareFilter(x) && x.stride.h == x.stride.w && x.stride.w <= 2 && isUndilated(x);
}

bool isDepthwise(const ConvProblem& x) { return x.groups == x.c && x.k == x.c; }

constexpr int kFloatBytes = 4;

/** Of `wideFilters` alone: last layers of super-resolution have such. */
bool isNineSquare(const ConvProblem& x) {
  return x.r == 9 && x.s == 9 && x.stride.h == 1 && x.stride.w == 1 && isUndilated(x) && x.groupInputs() > 1;
}

bool takesWide(const ConvProblem& x) {
  return (isSquareAndUndilated(x) || isNineSquare(x)) && (x.padding.left == 0 || x.padding.left == (x.s - 1) / 2);
}

/** A thread's items are numbered in 31 bits, and rows that a residue lacks are numbered, too. */
constexpr int64_t kMostDilatedOutputs = int64_t{1} << 30;

bool takesDilated(const ConvProblem& x) {
  const Lattice rows =
      makeLattice(static_cast<int>(x.stride.h), static_cast<int>(x.dilation.h), 0, static_cast<int>(x.r));
  return hasSmallSquareFilter(x) && x.groupInputs() == 1 && rows.stride <= 2 && x.outputSize() < kMostDilatedOutputs;
}

/** Bytes of one map in shared memory: as it comes, its filter, and as it goes where that is elsewhere. */
int64_t planeBytes(const Shape& x) {
  const int64_t outputs = outputsReplaceMaps(x) ? 0 : int64_t{x.p} * x.q;
  return (int64_t{x.h} * x.w + int64_t{x.r} * x.s + outputs) * kFloatBytes;
}

/** Maps of a block: a multiple of four, so that each block starts on 16 bytes. */
constexpr int kPlanesMultiple = 4;

/** Lanes of one map. */
int planeLanes(const Shape& x) { return ceilDivide(x.q, planeColumns(x.strideW)); }

bool takesPlanes(const ConvProblem& problem) {
  if (!isSquareAndUndilated(problem) || !isDepthwise(problem)) return false;
  const Shape x = shapeOf(problem);
  return kPlanesMultiple * planeLanes(x) <= kWarpLanes && kPlanesMultiple * planeBytes(x) <= kSharedBytes;
}

/** Output columns that a warp makes by column reuse; with a stride, its last lanes only lend. */
int reusedColumns(const ConvProblem& x) {
  const Lattice columns =
      makeLattice(static_cast<int>(x.stride.w), static_cast<int>(x.dilation.w), 0, static_cast<int>(x.s));
  return columns.stride == 1 ? kWarpLanes : kWarpLanes - static_cast<int>(x.s - 1) / columns.stride;
}

/** Beyond this too few lanes are left. */
bool takesColumnReuse(const ConvProblem& x) { return reusedColumns(x) >= kWarpLanes / 2; }

/** Output rows in flight of a rolling window. */
int windowRows(const Shape& x) { return ceilDivide(x.r, x.strideH); }

int64_t blocksOf(int64_t warps) { return (warps + kShuffleWarps - 1) / kShuffleWarps; }

/**
 * Gives an item so many of `rows` output rows that `cost(rows, warps)` is least, of several such the most; a warp has
 * `strips` items beside each other.
 */
template <typename Cost>
void splitRows(ShufflePlan& plan, int rows, int64_t items, int strips, const Cost& cost) {
  // Seed 003.
  constexpr int kMostRows = 56;
  const auto warpsOf = [&](int run) { return (items * ceilDivide(rows, run) + strips - 1) / strips; };
  double best = std::numeric_limits<double>::infinity();
  for (int run = std::min(rows, kMostRows); run > 0; --run) {
    const double ofRun = cost(run, warpsOf(run));
    if (ofRun >= best) continue;
    best = ofRun;
    plan.run = run;
  }
  plan.runs = ceilDivide(rows, plan.run);
  plan.warps = warpsOf(plan.run);
  plan.blocks = blocksOf(plan.warps);
}

/**
 * What the time of `wide` is made of, in cycles, fitted to 259 times of an H100: runs of 1 to 64 rows, of the depthwise
 * layers at batch 1, the larger of them at batch 128, and the single maps. Of the runs that were timed it takes the
 * fastest or one within 2 % of it. It says less of how long a layer takes than of which run is best.
 */
struct WideModel {
  /** Of the scheduler, for a row that a warp loads of, and for a multiply-add */
  double row, multiplyAdd;
  /** The least that a warp takes for the rows of a batch, and for the square of a row's multiply-adds */
  double alone, aloneSquare;
  /** Of a block besides, and of each store */
  double block, store;
  /**
   * Moving the tensors takes longer by this share where all blocks run at once, and by less the more rounds they take.
   * Of the shorter of moving and computing so much is not hidden by the other.
   */
  double together, unhidden;
};
constexpr WideModel kWideModel{28.6, 1.6, 492, 0.02, 1500, 88, 0.11, 0.03};

/** Cycles for items of `run` output rows in so many blocks, as kWideModel has it. */
double cyclesOfWide(const Shape& x, const GpuTraits& traits, int64_t blocksResident, int run, int64_t blocks) {
  constexpr WideModel model = kWideModel;
  const int outputs = 4 / x.strideW;
  const double ofRow = static_cast<double>(x.r * x.s * outputs) / x.strideH;
  const double busy = kWideBatch * (model.row + model.multiplyAdd * ofRow);
  const double alone = model.alone + model.aloneSquare * ofRow * ofRow;
  const int batches = ceilDivide((run + windowRows(x) - 1) * x.strideH, kWideBatch);
  const double stores = model.store * run * (outputs / std::gcd(outputs, x.q));
  // Each of a block's warps has a scheduler.
  const auto together = [&](double resident) {
    return model.block + stores + batches * std::max(alone, resident * busy);
  };
  const double each = static_cast<double>(blocks) / traits.multiprocessors;
  const double rounds = each / static_cast<double>(blocksResident);
  const double whole = std::floor(rounds);
  const double rest = std::ceil(each - whole * static_cast<double>(blocksResident));
  const double computed = whole * together(static_cast<double>(blocksResident)) + (rest > 0 ? together(rest) : 0);

  const double bytes =
      kFloatBytes * x.n * (static_cast<double>(x.c) * x.h * x.w + static_cast<double>(x.k) * x.p * x.q);
  const double perSecond =
      bytes < static_cast<double>(traits.l2Bytes) ? 2 * traits.bytesPerSecond : traits.bytesPerSecond;
  const double clock = traits.flopsPerSecond / (2 * 128.0 * traits.multiprocessors);
  const double moved = bytes / perSecond * clock * (1 + model.together / std::max(rounds, 1.0));
  return std::max(computed, moved) + model.unhidden * std::min(computed, moved);
}

void planSliding(ShufflePlan& plan, const ConvProblem& problem, const Shape& x, int multiprocessors) {
  plan.form = ShuffleForm::sliding;
  plan.columns = plan.columnReuse ? reusedColumns(problem) : kWarpLanes;
  plan.segments = ceilDivide(x.q, plan.columns);
  plan.blocksResident = slidingWarpsResident(x.r) / kShuffleWarps;
  // The fewest steps of one output row, of as many warps as the device holds at a time: short runs where there are few
  // maps, and for many the longest, which read the fewest rows twice. A warp takes six to start and to end.
  const int others = 6 + (plan.rowReuse ? windowRows(x) - 1 : 0);
  const int64_t held = int64_t{multiprocessors} * slidingWarpsResident(x.r);
  splitRows(plan, x.p, int64_t{x.n} * x.k * plan.segments, 1,
            [&](int run, int64_t warps) { return static_cast<double>((warps + held - 1) / held * (run + others)); });
}

void planBlocked(ShufflePlan& plan, const ConvProblem& problem, const Shape& x) {
  plan.form = ShuffleForm::blocked;
  plan.columns = plan.columnReuse ? reusedColumns(problem) : kWarpLanes;
  plan.run = plan.rowReuse ? kBlockedRows : 1;
  const Lattice rows = makeLattice(x.strideH, x.dilationH, x.padTop, x.r);
  const Lattice columns = makeLattice(x.strideW, x.dilationW, x.padLeft, x.s);
  plan.segments = ceilDivide(ceilDivide(x.q, columns.residues), plan.columns);
  plan.runs = ceilDivide(ceilDivide(x.p, rows.residues), plan.run);
  const int most = kSharedBytes / kFloatBytes / (x.r * x.s);
  plan.filters = x.groupOutputs > 1 && most >= kFiltersPerThread ? kFiltersPerThread : 1;
  plan.channels = std::min(x.groupInputs, most / plan.filters);
  plan.sharedBytes = plan.channels * x.r * x.s * plan.filters * kFloatBytes;
  const int64_t items = int64_t{plan.segments} * columns.residues * plan.runs * rows.residues;
  const int64_t filterBlocks = int64_t{ceilDivide(x.groupOutputs, plan.filters)} * x.groups * x.n;
  plan.warps = items * filterBlocks;
  plan.blocks = blocksOf(items) * filterBlocks;
}

void planWide(ShufflePlan& plan, const Shape& x, const GpuTraits& traits) {
  const int chunks = std::max(ceilDivide(x.w, 4), ceilDivide(x.q, 4 / x.strideW));
  plan.lanes = std::min(chunks, kWarpLanes);
  plan.columns = plan.lanes * 4 / x.strideW;
  plan.edges = chunks > kWarpLanes;
  plan.segments = ceilDivide(x.q, plan.columns);
  const int strips = kWarpLanes / plan.lanes;
  if (x.groupInputs == 1) {
    plan.form = ShuffleForm::wide;
    plan.blocksResident = wideWarpsResident(x.r, plan.edges) / kShuffleWarps;
    splitRows(plan, x.p, int64_t{x.n} * x.k * plan.segments, strips, [&](int run, int64_t warps) {
      return cyclesOfWide(x, traits, plan.blocksResident, run, blocksOf(warps));
    });
    return;
  }
  plan.form = ShuffleForm::wideFilters;
  plan.filters = kFiltersPerThread;
  const int channelBytes = x.r * x.s * kFiltersPerThread * kFloatBytes;
  plan.channels = std::min(x.groupInputs, kSharedBytes / channelBytes);
  plan.sharedBytes = plan.channels * channelBytes;
  plan.run = kWideFilterRows * x.strideH;
  plan.runs = ceilDivide(x.p, plan.run);
  const int64_t items = (int64_t{plan.segments} * plan.runs + strips - 1) / strips;
  const int64_t filterBlocks = int64_t{ceilDivide(x.groupOutputs, kFiltersPerThread)} * x.groups * x.n;
  plan.warps = items * filterBlocks;
  plan.blocks = blocksOf(items) * filterBlocks;
}

void planDilated(ShufflePlan& plan, const Shape& x, const GpuTraits& traits) {
  plan.form = ShuffleForm::dilated;
  const Lattice rows = makeLattice(x.strideH, x.dilationH, x.padTop, x.r);
  const int residues = std::min(rows.residues, x.p);
  plan.columns = 1;
  plan.blocksResident = dilatedWarpsResident(x.r) / kShuffleWarps;
  // As for `sliding`: the fewest steps of one output row.
  const int others = 6 + ceilDivide(x.r, rows.stride) - 1;
  const int64_t held = int64_t{traits.multiprocessors} * dilatedWarpsResident(x.r);
  splitRows(plan, ceilDivide(x.p, rows.residues), int64_t{x.n} * x.k * x.q * residues, kWarpLanes,
            [&](int run, int64_t warps) { return static_cast<double>((warps + held - 1) / held * (run + others)); });
}

/** Of every block, for the system. */
constexpr int kSharedBytesReserved = 1024;

void planPlanes(ShufflePlan& plan, const Shape& x, const GpuTraits& traits) {
  plan.form = ShuffleForm::planes;
  plan.columns = planeColumns(x.strideW);
  plan.lanes = planeLanes(x);
  plan.run = x.p;
  const int64_t bytes = planeBytes(x);
  const int64_t aBlockEach = int64_t{x.n} * x.c / traits.multiprocessors;
  const int64_t planes = std::min({int64_t{kWarpLanes / plan.lanes}, kSharedBytes / bytes, aBlockEach});
  plan.planes = static_cast<int>(std::max<int64_t>(planes / kPlanesMultiple * kPlanesMultiple, kPlanesMultiple));
  plan.sharedBytes = static_cast<int>(plan.planes * bytes);
  plan.blocksResident = std::clamp<int64_t>(
      traits.sharedBytesPerMultiprocessor / (plan.sharedBytes + kSharedBytesReserved), 1, planeBlocksResident(x.r));
  plan.blocks = std::min<int64_t>(ceilDivide(x.n * x.c, plan.planes), plan.blocksResident * traits.multiprocessors);
  plan.warps = plan.blocks;
}

/** What `planes` takes: columns of a map at most, and maps, for each unit of stride, at least (docs/experiments.md). */
constexpr int kWidestPlane = 20;
constexpr int64_t kFewestPlanes = 4096;

std::string chooseVariant(const ConvProblem& problem, const GpuTraits& traits) {
  if (takesPlanes(problem) && problem.w <= kWidestPlane && problem.n * problem.c >= kFewestPlanes * problem.stride.h) {
    return "planes";
  }
  const Shape x = shapeOf(problem);
  ShufflePlan plan;
  if (takesWide(problem)) {
    planWide(plan, x, traits);
    // Several maps: with fewer warps than multiprocessors, threads that take less each are faster
    // (docs/experiments.md).
    if (plan.form == ShuffleForm::wide || plan.warps >= traits.multiprocessors) return "wide";
  } else if (isSquareAndUndilated(problem) && x.groupInputs == 1) {
    return "both";
  } else if (takesDilated(problem)) {
    return "dilated";
  }
  // With several maps loads that hit the first cache are faster than shuffles, and blocks for every multiprocessor come
  // before the reuse of rows.
  plan.columnReuse = false;
  planBlocked(plan, problem, x);
  return plan.blocks >= 2 * traits.multiprocessors ? "row" : "neither";
}

/** Shares of the device's peaks. */
struct Rates {
  double bandwidth, flops;
};

/**
 * Fitted to an H200 (4.8 TB/s, 67 TFLOP/s), where moving and computing add up; within 10 % on the depthwise layers of
 * the bench at batch 128, 20 % where `planes` has a stride of 2.
 */
Rates ratesOf(ShuffleForm form) {
  switch (form) {
    case ShuffleForm::sliding: return {0.5, 0.3};
    case ShuffleForm::wide: return {0.9, 0.9};
    case ShuffleForm::dilated: return {0.9, 0.3};
    case ShuffleForm::planes: return {0.9, 1.0};
    case ShuffleForm::wideFilters: return {0.9, 0.27};
    case ShuffleForm::blocked: return {0.9, 0.07};
  }
  return {};
}

/** Seconds of the longest chain: the launch, and what a thread waits for, fitted to the layers at batch 1 likewise. */
double latency(const ConvProblem& x, const ShufflePlan& plan) {
  constexpr double kLaunch = 1.3e-6;
  if (hasOneMapPerFilter(plan.form)) return kLaunch + 6e-8 * static_cast<double>(x.r * x.s);
  constexpr double kInputRow = 3e-7;
  const int64_t rows = (plan.run - 1) * x.stride.h + x.r;
  const int64_t loads = plan.form == ShuffleForm::wideFilters ? 1 : (x.s + 3) / 4;
  return kLaunch + kInputRow * static_cast<double>(x.groupInputs() * rows * loads);
}

}  // namespace

Lattice makeLattice(int stride, int dilation, int pad, int taps) {
  // One tap is never dilated.
  const int apart = taps == 1 ? 1 : dilation;
  const int common = std::gcd(stride, apart);
  return {apart / common, stride / common, stride, apart, pad};
}

std::optional<std::string> refuseShuffle(const GpuRequest& request) {
  const ConvProblem& x = request.problem;
  if (auto reason = refuseLarge(x)) return reason;
  // Lanes beyond the last column compute coordinates, too.
  constexpr int64_t kMostApart = int64_t{1} << 20;
  constexpr int64_t kMostPadded = int64_t{1} << 30;
  if (x.stride.h * x.dilation.h > kMostApart || x.stride.w * x.dilation.w > kMostApart ||
      x.h + x.padding.top + x.padding.bottom > kMostPadded || x.w + x.padding.left + x.padding.right > kMostPadded) {
    return "takes strides times dilations of up to 2^20, and up to 2^30 padded rows and columns; this problem has more";
  }
  constexpr int kMostTaps = kSharedBytes / kFloatBytes;
  if (x.r * x.s > kMostTaps) {
    return "takes filters of up to " + std::to_string(kMostTaps) +
           " taps, which is what shared memory holds; this problem has " + std::to_string(x.r * x.s);
  }
  const std::string& variant = request.variant;
  if ((variant == "column" || variant == "both") && !takesColumnReuse(x)) {
    return "takes filters of up to " + std::to_string(kWarpLanes / 2) +
           " strides' width for column reuse; this problem has one of " + std::to_string(x.s) + " columns";
  }
  if (variant == "wide" && !takesWide(x)) {
    return "takes undilated 3x3, 5x5 and 7x7 filters of stride 1 or 2, and 9x9 filters of stride 1 of several input "
           "maps, "
           "padded on the left by nothing or by half of their width, as variant 'wide'";
  }
  if (variant == "dilated" && !takesDilated(x)) {
    return "takes depthwise 3x3, 5x5 and 7x7 filters of stride 1 or 2, or of a stride whose quotient by the greatest "
           "common divisor with the dilation is 1 or 2, as variant 'dilated'";
  }
  if (variant == "planes" && !takesPlanes(x)) {
    return "takes depthwise convolutions of small maps, with undilated 3x3, 5x5 and 7x7 filters of stride 1 or 2, as "
           "variant 'planes'";
  }
  return std::nullopt;
}

ShufflePlan planShuffle(const GpuRequest& request) {
  const ConvProblem& problem = request.problem;
  const Shape x = shapeOf(problem);
  const std::string variant = request.variant.empty() ? chooseVariant(problem, request.traits) : request.variant;
  ShufflePlan plan;
  plan.columnReuse = variant != "neither" && variant != "row";
  plan.rowReuse = variant != "neither" && variant != "column";
  if (variant == "wide") {
    planWide(plan, x, request.traits);
  } else if (variant == "dilated") {
    planDilated(plan, x, request.traits);
  } else if (variant == "planes") {
    planPlanes(plan, x, request.traits);
  } else if (isSquareAndUndilated(problem) && x.groupInputs == 1) {
    planSliding(plan, problem, x, request.traits.multiprocessors);
  } else {
    planBlocked(plan, problem, x);
  }
  return plan;
}

Estimate estimateShuffle(const GpuRequest& request) {
  const ConvProblem& x = request.problem;
  const ShufflePlan plan = planShuffle(request);
  const Rates rates = ratesOf(plan.form);
  const double bytes = double{kFloatBytes} * static_cast<double>(x.inputSize() + x.weightSize() + x.outputSize());
  const double seconds = bytes / (rates.bandwidth * request.traits.bytesPerSecond) +
                         2 * x.multiplyAdds() / (rates.flops * request.traits.flopsPerSecond) + latency(x, plan);
  return {seconds * 1e3,
          0,
          {{"columns", plan.columns}, {"rows", plan.run}, {"filters", plan.filters}, {"planes", plan.planes}}};
}

std::vector<FilterForm> formsShuffle(const GpuRequest& request, const Weights&) { return {givenForm(request.problem)}; }

}  // namespace warpconv::cuda
