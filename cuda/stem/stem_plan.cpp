#include <algorithm>
#include <limits>
#include <optional>

#include "cuda/planning/considered_tiles.h"
#include "cuda/planning/shape.h"
#include "cuda/stem/plan.h"
#include "cuda/stem/stem.h"
#include "divide.h"

namespace warpconv::cuda {
namespace stem {
namespace {

/** Shared memory beside what sharedBytes counts: tables of filters and pairs */
constexpr int64_t kStaticBytes = 1536;
/** Of each block the system takes a part. */
constexpr int64_t kReservedBytes = 1024;

/** Blocks that a multiprocessor has room for; none where one finds none. */
int64_t blocksHeld(const GpuRequest& request, const StemTile& tile, int patches) {
  const int64_t bytes = sharedBytes(request.problem, tile, patches);
  if (bytes > mostSharedBytes(request.traits)) return 0;
  const int64_t each = bytes + kStaticBytes + kReservedBytes;
  return std::min<int64_t>(tile.held, request.traits.sharedBytesPerMultiprocessor / each);
}

double milliseconds(const GpuRequest& request, const Model& model, const StemTile& tile, const Plan& plan) {
  const ConvProblem& x = request.problem;
  const GpuTraits& traits = request.traits;
  const int64_t blocks = plan.columns * outputBlocks(x, tile);
  const auto sharing = static_cast<double>(std::min(plan.held, ceilDivide(blocks, traits.multiprocessors)));
  const double warpgroups = tile.threads() / 128.0, channels = tile.blockM / 64.0;
  const auto steps = static_cast<double>(stepsOf(x)), words = static_cast<double>(wordsEach(patchOf(x, tile), tile));
  const double single = x.q % 4 == 0 ? 1.0 : model.single;
  const double alone = model.tile + model.word * words +
                       steps * (model.step + model.products * channels * warpgroups) +
                       model.outputs * single * channels;
  const double own = model.ownStep * steps * channels + model.ownOutputs * single * channels + model.ownWord * words;
  // More than one only where there are more blocks of output channels than the device holds.
  const auto rounds = static_cast<double>(ceilDivide(blocks, plan.held * traits.multiprocessors));
  const double cycles =
      model.kernel + rounds * static_cast<double>(plan.tilesEach) * std::max(alone, sharing * warpgroups * own);
  const double perSecond = traits.flopsPerSecond / (2 * 128.0 * traits.multiprocessors);
  const double moved = 4.0 * static_cast<double>(x.inputSize() + x.weightSize() + x.outputSize());
  // As fast as im2win moves tensors.
  constexpr double kShareOfBandwidth = 0.8;
  return 1e3 * std::max(cycles / perSecond, moved / (kShareOfBandwidth * traits.bytesPerSecond));
}

/** Each of the tiles that fit. */
std::vector<Plan> planTiles(const GpuRequest& request) {
  std::vector<Plan> plans;
  for (int tile = 0; tile < kTileCount; ++tile) {
    if (!request.variant.empty() && request.variant != kTiles[tile].variant) continue;
    if (const std::optional<Plan> plan = planTile(request, tile)) plans.push_back(*plan);
  }
  return plans;
}

bool isFaster(const Plan& a, const Plan& b) { return a.milliseconds < b.milliseconds; }

Tiles tilesOf(const Plan& plan) {
  const StemTile& tile = kTiles[plan.tile].tile;
  return {{"blockM", tile.blockM}, {"blockN", tile.blockN()}, {"columns", plan.columns}, {"tilesEach", plan.tilesEach}};
}

}  // namespace

int64_t outputBlocks(const ConvProblem& x, const StemTile& tile) {
  return x.groups * ceilDivide(x.groupOutputs(), tile.blockM);
}

int64_t tilesP(const ConvProblem& x, const StemTile& tile) { return ceilDivide(x.p, tile.rows); }

int64_t tilesQ(const ConvProblem& x) { return ceilDivide(x.q, kWarpColumns); }

int64_t sharedBytes(const ConvProblem& x, const StemTile& tile, int patches) {
  const int64_t patchBytes = saturatedProduct({patches, wordsEach(patchOf(x, tile), tile), tile.threads(), 8});
  return saturatedSum(patchBytes, tile.stagedBytes() + stepsOf(x) * tile.stepBytes());
}

int64_t mostSharedBytes(const GpuTraits& traits) { return traits.sharedBytesPerBlock - kStaticBytes; }

int64_t filterRows(const ConvProblem& x, const StemTile& tile) { return outputBlocks(x, tile) * tile.blockM; }

int64_t filterWords(const ConvProblem& x, const StemTile& tile) {
  return filterRows(x, tile) * stepsOf(x) * kStepPairs * 2;
}

FilterForm formOf(const ConvProblem& x, const Plan& plan) {
  const StemTile& tile = kTiles[plan.tile].tile;
  return makeForm(FilterOrder::stem, x, 4 * (filterWords(x, tile) + filterRows(x, tile)), tile.blockM);
}

std::optional<Plan> planTile(const GpuRequest& request, int index, const Model& model) {
  const ConvProblem& x = request.problem;
  const StemTile& tile = kTiles[index].tile;
  const int64_t tiles = x.n * tilesP(x, tile) * tilesQ(x);
  const int64_t blocksM = outputBlocks(x, tile);
  for (int patches = 1; patches <= 2; ++patches) {
    const int64_t held = blocksHeld(request, tile, patches);
    if (held == 0) break;
    const int64_t most = std::max<int64_t>(1, held * request.traits.multiprocessors / blocksM);
    const int64_t tilesEach = ceilDivide(tiles, most);
    if (tilesEach > 1 && patches == 1) continue;
    const int64_t columns = ceilDivide(tiles, tilesEach);
    Plan plan{index, columns, tilesEach, held};
    plan.milliseconds = milliseconds(request, model, tile, plan);
    return plan;
  }
  return std::nullopt;
}

Plan planStem(const GpuRequest& request) {
  const std::vector<Plan> plans = planTiles(request);
  return *std::min_element(plans.begin(), plans.end(), isFaster);
}

}  // namespace stem

std::optional<std::string> refuseStem(const GpuRequest& request) {
  const ConvProblem& x = request.problem;
  if (auto refusal = refuseWarpgroupProducts(request.traits)) return refusal;
  if (auto refusal = refuseLarge(x)) return refusal;
  if (x.s == 1) return "takes neighbouring elements of a row in pairs; this problem's filters have one column";
  if (x.filterSize() < kLeastTensorSum) {
    return "takes sums of at least " + std::to_string(kLeastTensorSum) +
           " products, of fewer of which its error may be more than float32's; this problem's have " +
           std::to_string(x.filterSize());
  }
  if (stem::stepsOf(x) > stem::kMostSteps) {
    return "keeps whole filters in shared memory, of at most " +
           std::to_string(2 * stem::kStepPairs * stem::kMostSteps) +
           " elements, rows filled up to even numbers; this problem's have " +
           std::to_string(x.groupInputs() * x.r * (x.s + x.s % 2));
  }
  const int64_t filters = x.groups * roundUp(x.groupOutputs(), stem::kMostM) * stem::stepsOf(x) * 2 * stem::kStepPairs;
  if (filters > kMaxExtent) {
    return "takes filters of fewer than 2^31 elements once padded to its tiles; this problem has " +
           std::to_string(filters);
  }
  if (stem::planTiles(request).empty()) {
    return "keeps the input around a tile of outputs in shared memory, of which this device has too little for "
           "windows that lie so far apart or reach so far";
  }
  return std::nullopt;
}

Estimate estimateStem(const GpuRequest& request) {
  const stem::Plan plan = stem::planStem(request);
  Estimate estimate{plan.milliseconds, 0, stem::tilesOf(plan)};
  if (request.variant.empty()) {
    estimate.considered = [request, plan] {
      return consideredTiles(stem::kTiles, stem::planTiles(request), plan, stem::tilesOf);
    };
  }
  return estimate;
}

std::vector<FilterForm> formsStem(const GpuRequest& request, const Weights&) {
  return {stem::formOf(request.problem, stem::planStem(request))};
}

std::optional<std::string> packedStemVariant(const GpuRequest& request, const Weights& weights) {
  std::vector<stem::Plan> plans = stem::planTiles(request);
  std::erase_if(plans, [&](const stem::Plan& plan) { return !stem::formOf(request.problem, plan).isIn(weights); });
  return fastestTile(stem::kTiles, plans);
}

}  // namespace warpconv::cuda
