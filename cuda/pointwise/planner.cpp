#include "cuda/pointwise/planner.h"

#include <algorithm>

#include "cuda/pointwise/dynamic/blocking.h"
#include "cuda/pointwise/matrix.h"
#include "cuda/pointwise/variants.h"
#include "divide.h"

namespace warpconv::cuda::pointwise {
namespace {

/** Of a tile, not split, and without the prediction. */
template <typename Tile>
Candidate wholeCandidate(const Matrix& x, const Tile& tile) {
  const auto [filters, pixels] = tile.patch();
  Candidate candidate;
  candidate.tile = tile;
  candidate.intensity = double(filters) * pixels / (filters + pixels);
  candidate.blocks = tilesOf(x, filters, pixels);
  candidate.registers = tile.registers();
  return candidate;
}

/** Whether blocks of clusters may share a tile's channels so: where there are clusters, each has a step of them. */
template <typename Tile>
bool isSplitOffered(const Matrix& x, const Tile& tile, int split, const GpuTraits& traits) {
  return split == 1 || (traits.computeCapability >= 90 && tile.mayBeSplit(split) &&
                        x.channels > (split - 1) * int64_t{tile.stepChannels()});
}

/**
 * Whether a block fits into shared memory. A streaming kernel must also have all of its blocks resident at once: later
 * blocks could not load their filters while the previous kernel runs.
 */
template <typename Tile>
bool isOffered(const Tile& tile, const Candidate& candidate, const GpuTraits& traits) {
  if (!Tile::kFamily.isStreamed()) return candidate.sharedBytes <= traits.sharedBytesPerBlock;
  const int64_t held = blocksHeld(tile, candidate.sharedBytes, traits) * traits.multiprocessors;
  return candidate.sharedBytes <= std::min(kMostStreamedBytes, traits.sharedBytesPerBlock) && candidate.blocks <= held;
}

template <typename Tile>
void addCandidates(const Matrix& x, const GpuTraits& traits, const Models& models, std::vector<Candidate>& candidates) {
  if (!Tile::isFor(x, traits)) return;
  for (const Tile& tile : Tile::kernels()) {
    const Candidate whole = wholeCandidate(x, tile);
    for (const int split : kSplits) {
      if (!isSplitOffered(x, tile, split, traits)) continue;
      Candidate candidate = whole;
      candidate.split = split;
      candidate.blocks *= split;
      const int64_t channels = channelsOfBlock(x.channels, tile.unitChannels(), split);
      // Filters take more than a byte for each channel: so many do not fit, and their bytes may not fit into 32 bits.
      if (Tile::kFamily.isStreamed() && channels > kMostStreamedBytes) continue;
      candidate.sharedBytes = sharedBytesFor(tile, channels, split, x.aligned) + tile.offsetBytes();
      if (!tile.takes(x.channels, channels) || !isOffered(tile, candidate, traits)) continue;
      candidate.milliseconds = tile.predict(x, candidate, traits, models.of<Tile>());
      candidates.push_back(candidate);
    }
  }
}

/** The fastest by prediction of the paper's choice and all other candidates. */
void choose(std::vector<Candidate>& candidates) {
  const auto slower = [](const Candidate& a, const Candidate& b) {
    if (a.isChosen() != b.isChosen()) return a.isChosen();
    return a.milliseconds < b.milliseconds;
  };
  const auto best = std::min_element(candidates.begin(), candidates.end(), slower);
  for (auto candidate = candidates.begin(); candidate != candidates.end(); ++candidate) {
    if (candidate != best && candidate->isChosen()) candidate->loss = Loss::slower;
  }
}

}  // namespace

std::vector<Candidate> planPointwise(const ConvProblem& problem, const GpuTraits& traits, const Models& models) {
  const Matrix matrix = matrixOf(problem, traits);
  std::vector<Candidate> candidates = planBlocking(matrix, traits);
  candidates.reserve(kVariants.size());
  Families::forEach([&]<typename Tile>() { addCandidates<Tile>(matrix, traits, models, candidates); });
  choose(candidates);
  return candidates;
}

int64_t pixelsOfTile(int64_t pixels, int most) { return roundUp(ceilDivide(pixels, ceilDivide(pixels, most)), 4); }

std::optional<Candidate> findCandidate(const std::vector<Candidate>& candidates, std::string_view variant) {
  for (const Candidate& candidate : candidates) {
    const bool wanted = variant.empty()            ? candidate.isChosen()
                        : variant == kPaperVariant ? candidate.ofPaper
                                                   : candidate.name() == variant;
    if (wanted && !std::holds_alternative<std::monostate>(candidate.tile)) return candidate;
  }
  return std::nullopt;
}

}  // namespace warpconv::cuda::pointwise
