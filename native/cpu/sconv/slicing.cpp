#include "cpu/sconv/slicing.h"

#include <algorithm>
#include <cmath>

#include "divide.h"

namespace warpconv::sconv {
namespace {

/** For machines that do not tell: the smallest caches of current x86-64 and arm64 server cores. */
constexpr CpuCaches kAssumedCaches{32 * 1024, 512 * 1024, 4 * 1024 * 1024};

/** beta and gamma of Equations 4 and 5, as in the paper's evaluation (section 7.1). */
constexpr double kCacheShare = 0.9;

/**
 * alpha of Equation 2, as a share of the L2 cache. The paper has 0.9 of the L1 cache; but each step of a micro-kernel
 * reads 128 adjacent bytes of filters for 14 cycles of arithmetic or more, which the L2 cache delivers, and every
 * channel set less saves a pass over the outputs. One Zen 4 core (L1 32 KB, L2 1 MB), all 393 layers of
 * bench/layers/sconv-393.json, medians in turn, in ms: 0.075 (which is 2.4 of the L1 cache) takes 687, 0.3 662, 0.45
 * 657, 0.6 to 0.9 650 to 653.
 */
constexpr double kSetShare = 0.5;

/** CL, and the latencies of Equation 6 in cycles: typical of the current server cores. */
constexpr double kCacheLine = 64;
constexpr double kL2Cycles = 14;
constexpr double kL3Cycles = 50;
constexpr double kDramCycles = 250;

double orAssumed(int64_t bytes, int64_t assumed) { return static_cast<double>(bytes > 0 ? bytes : assumed); }

/** Bytes of one tile of each kind (Equation 1), as doubles: they only enter comparisons and costs. */
struct TileBytes {
  double stationary;
  double moving;
  double output;
};

/** How many tiles of each kind a channel set has (Equation 3). */
struct TileCounts {
  double stationary;
  double moving;
};

/** The bytes of so many floats. */
template <typename... Counts>
double floatBytes(Counts... counts) {
  return (static_cast<double>(counts) * ...) * sizeof(float);
}

/** |IN| of Equation 1 for `channels`: of distinct elements where windows share them. */
double inputBytes(const Slicing& cut, const ConvProblem& x, int64_t channels) {
  if (cut.presentation == Presentation::packed) return floatBytes(cut.windows, channels, x.r, x.s);
  const int64_t span = (cut.rowsPerTile - 1) * x.stride.h + (x.r - 1) * x.dilation.h + 1;
  const int64_t columns = (cut.windows / cut.rowsPerTile - 1) * x.stride.w + (x.s - 1) * x.dilation.w + 1;
  return floatBytes(channels, std::min(cut.rowsPerTile * x.r, span), columns);
}

/** |FS| */
double filterBytes(const Slicing& cut, const ConvProblem& x, int64_t channels) {
  return floatBytes(cut.filters, channels, x.r, x.s);
}

/** Fewer windows than this in a tile leave the multiply-add units waiting for loads and for each other. */
constexpr int64_t kLeastRowWindows = 6;

/** The micro-kernel's steps from window to window. */
constexpr int64_t kMostStep = 2;

/**
 * Output columns times filter columns: which of a row's windows have which column inside is kept for all of them, in
 * 32 MB or less.
 */
constexpr int64_t kMostRowElements = int64_t{1} << 26;

bool canReadAsTheyLie(const ConvProblem& x) {
  return isFlat(x) || (x.stride.w <= kMostStep && x.q * x.s <= kMostRowElements);
}

bool prefersRows(const ConvProblem& x, const TileShape& tile, int64_t rowWindows) {
  return canReadAsTheyLie(x) && rowWindows >= std::min(kLeastRowWindows, tile.windows);
}

void cutWindows(const ConvProblem& x, const TileShape& tile, const Switches& switches, Slicing& cut) {
  const int64_t perRow = ceilDivide(x.q, tile.windows);
  const int64_t rowWindows = ceilDivide(x.q, perRow);
  const std::optional<Presentation>& asked = switches.presentation;
  const bool byRows = !isFlat(x) && (asked ? *asked == Presentation::asTheyLie : prefersRows(x, tile, rowWindows));
  cut.rowsPerTile = 1;
  if (byRows) {
    cut.presentation = Presentation::asTheyLie;
    cut.rowsPerTile = 2 * x.q <= tile.windows && x.p > 1 ? 2 : 1;
    cut.windows = rowWindows * cut.rowsPerTile;
    cut.tilesPerRow = perRow;
    return;
  }
  cut.presentation = asked.value_or(isFlat(x) ? Presentation::asTheyLie : Presentation::packed);
  const int64_t evenly = ceilDivide(x.p * x.q, ceilDivide(x.p * x.q, tile.windows));
  cut.windows = ceilDivide(evenly, tile.windowStep) * tile.windowStep;
  cut.tilesPerRow = 0;
}

/** The largest of `most`, most / 2, most / 4, … (rounded up) that satisfies `fits`; 1 when none does. */
template <typename Fits>
int64_t halveUntil(int64_t most, Fits fits) {
  int64_t value = most;
  while (value > 1 && !fits(static_cast<double>(value))) value = (value + 1) / 2;
  return value;
}

struct Distribution {
  int64_t k2;
  int64_t k3;
  double cost;
};

/** K2 and K3 (Equations 4 and 5) and their cost (Equations 6 to 14). */
Distribution distribute(const TileBytes& bytes, const TileCounts& count, double channelSets, const CpuCaches& caches) {
  const double l2 = kCacheShare * orAssumed(caches.l2, kAssumedCaches.l2);
  const double l3 = kCacheShare * orAssumed(caches.l3, kAssumedCaches.l3);
  const int64_t k2 = halveUntil(static_cast<int64_t>(count.moving),
                                [&](double k) { return bytes.stationary + k * (bytes.moving + bytes.output) <= l2; });
  const int64_t k3 = halveUntil(static_cast<int64_t>(count.stationary), [&](double k) {
    const double moving = static_cast<double>(k2);
    return k * bytes.stationary + moving * bytes.moving + moving * k * bytes.output <= l3;
  });
  const double allStationary = count.stationary * bytes.stationary / kCacheLine;
  const double allMoving = count.moving * bytes.moving / kCacheLine;
  const double movingSetsLeft = count.moving / static_cast<double>(k2) - 1;
  const double stationarySetsLeft = count.stationary / static_cast<double>(k3) - 1;
  const double dram = allStationary + allMoving + std::min(movingSetsLeft, 1.0) * stationarySetsLeft * allMoving;
  const double fromL3 = movingSetsLeft * allStationary;
  const double fromL2 = (count.stationary - 1) * allMoving;
  return {k2, k3, channelSets * (kDramCycles * dram + kL3Cycles * fromL3 + kL2Cycles * fromL2)};
}

}  // namespace

int64_t inputTiles(const ConvProblem& x, const Slicing& cut) {
  return cut.tilesPerRow > 0 ? ceilDivide(x.p, cut.rowsPerTile) * cut.tilesPerRow : ceilDivide(x.p * x.q, cut.windows);
}

bool isFlat(const ConvProblem& x) { return x.r * x.s == 1 && x.stride.h * x.stride.w == 1 && !x.hasPadding(); }

std::optional<std::string> presentationRefusal(const ConvProblem& x, Presentation presentation) {
  if (presentation == Presentation::asTheyLie && !canReadAsTheyLie(x)) {
    return "reads windows as they lie where the stride along a row is at most 2 and output columns times filter "
           "columns are at most 2^26; this problem is " +
           describe(x);
  }
  return std::nullopt;
}

Slicing sliceConvolution(const ConvProblem& problem, const TileShape& tile, const CpuCaches& caches,
                         const Switches& switches) {
  Slicing cut{};
  cut.filters = tile.filters;
  cutWindows(problem, tile, switches, cut);
  cut.packAhead = switches.packAhead && cut.presentation == Presentation::packed;
  const double capacity = kSetShare * orAssumed(caches.l2, kAssumedCaches.l2);
  const double output = floatBytes(cut.windows, cut.filters);
  cut.channels = halveUntil(problem.groupInputs(), [&](double c) {
    const auto set = static_cast<int64_t>(c);
    return inputBytes(cut, problem, set) + filterBytes(cut, problem, set) + output <= capacity;
  });
  const auto channelSets = static_cast<double>(ceilDivide(problem.groupInputs(), cut.channels));
  const double input = inputBytes(cut, problem, cut.channels);
  const double filter = filterBytes(cut, problem, cut.channels);
  const auto inputs = static_cast<double>(inputTiles(problem, cut));
  const auto filters = static_cast<double>(ceilDivide(problem.groupOutputs(), tile.filters));
  const Distribution is = distribute({input, filter, output}, {inputs, filters}, channelSets, caches);
  const Distribution ws = distribute({filter, input, output}, {filters, inputs}, channelSets, caches);
  const Schedule cheaper = ws.cost < is.cost ? Schedule::weightStationary : Schedule::inputStationary;
  cut.schedule = switches.schedule.value_or(cheaper);
  const bool weightStationary = cut.schedule == Schedule::weightStationary;
  const Distribution& best = weightStationary ? ws : is;
  cut.k2 = best.k2;
  cut.k3 = best.k3;
  cut.cost = best.cost;
  cut.otherCost = weightStationary ? is.cost : ws.cost;
  return cut;
}

}  // namespace warpconv::sconv
