#include "cpu/sconv/slicing.h"

#include <algorithm>
#include <cmath>

#include "cpu/sconv/divide.h"

namespace warpconv::sconv {
namespace {

/** For machines that do not tell: the smallest caches of current x86-64 and arm64 server cores. */
constexpr CpuCaches kAssumedCaches{32 * 1024, 512 * 1024, 4 * 1024 * 1024};

/** alpha, beta and gamma of Equations 2, 4 and 5, as in the paper's evaluation (section 7.1). */
constexpr double kCacheShare = 0.9;

/** CL, and the latencies of Equation 6 in cycles: typical of the current server cores. */
constexpr double kCacheLine = 64;
constexpr double kL2Cycles = 14;
constexpr double kL3Cycles = 50;
constexpr double kDramCycles = 250;

double orAssumed(int64_t bytes, int64_t assumed) {
  return kCacheShare * static_cast<double>(bytes > 0 ? bytes : assumed);
}

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

double tileBytes(int64_t width, const ConvProblem& problem, int64_t channels) {
  return static_cast<double>(width * channels * problem.r * problem.s) * sizeof(float);
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
  const double l2 = orAssumed(caches.l2, kAssumedCaches.l2);
  const double l3 = orAssumed(caches.l3, kAssumedCaches.l3);
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

Slicing sliceConvolution(const ConvProblem& problem, const TileShape& tile, const CpuCaches& caches) {
  const int64_t outputs = problem.p * problem.q;
  const int64_t windowTiles = ceilDivide(outputs, tile.windows);
  const int64_t windows = ceilDivide(outputs, windowTiles);
  const int64_t filterTiles = ceilDivide(problem.groupOutputs(), tile.filters);

  const double l1 = orAssumed(caches.l1d, kAssumedCaches.l1d);
  const double output = static_cast<double>(windows * tile.filters) * sizeof(float);
  const int64_t channels = halveUntil(problem.groupInputs(), [&](double c) {
    const auto set = static_cast<int64_t>(c);
    return tileBytes(windows, problem, set) + tileBytes(tile.filters, problem, set) + output <= l1;
  });
  const double channelSets = static_cast<double>(ceilDivide(problem.groupInputs(), channels));
  const double input = tileBytes(windows, problem, channels);
  const double filter = tileBytes(tile.filters, problem, channels);
  const auto inputs = static_cast<double>(windowTiles);
  const auto filters = static_cast<double>(filterTiles);
  const Distribution is = distribute({input, filter, output}, {inputs, filters}, channelSets, caches);
  const Distribution ws = distribute({filter, input, output}, {filters, inputs}, channelSets, caches);
  const bool weightStationary = ws.cost < is.cost;
  const Distribution& best = weightStationary ? ws : is;
  return {.windows = windows,
          .filters = tile.filters,
          .channels = channels,
          .schedule = weightStationary ? Schedule::weightStationary : Schedule::inputStationary,
          .k2 = best.k2,
          .k3 = best.k3,
          .cost = best.cost,
          .otherCost = weightStationary ? is.cost : ws.cost};
}

}  // namespace warpconv::sconv
