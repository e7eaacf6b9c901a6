#include "cuda/pointwise/filter_forms.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <type_traits>

#include "cuda/tensor_core/window_filters.h"
#include "divide.h"

namespace warpconv::cuda::pointwise {
namespace {

/** Splits of a tile's channels at most, and steps of a chunk: of any tile whose filters are halved */
constexpr int kMostSplits = 8;
constexpr int kMostChunkSteps = 8;
static_assert(std::ranges::all_of(kWarpgroupTiles, [](auto& tile) { return tile.chunkSteps() <= kMostChunkSteps; }));
static_assert(std::ranges::all_of(kRowsTiles, [](auto& tile) { return tile.chunkSteps <= kMostChunkSteps; }));
static_assert(std::ranges::all_of(kTf32RowsTiles, [](auto& tile) { return tile.chunkSteps <= kMostChunkSteps; }));
static_assert(std::ranges::all_of(kBf16RowsTiles, [](auto& tile) { return tile.chunkSteps <= kMostChunkSteps; }));

/**
 * The block of a tile that has the last of its channels reads whole chunks, up to so many steps beyond the tile's last:
 * a step for each block but one, as shares are rounded up, and what fills up the chunk.
 */
constexpr int64_t kStepsBeyond = kMostSplits + kMostChunkSteps;

int64_t pixelTilesOf(const ConvProblem& x, const Candidate& candidate) {
  const int64_t all = x.n * x.p * x.q;
  const auto pixels = [&]<typename Tile>(const Tile& tile) -> int64_t {
    if constexpr (std::is_same_v<Tile, std::monostate>) {
      return 1;
    } else {
      const int most = tile.patch().pixels;
      return Tile::kFamily.filters == FilterSource::parts ? pixelsOfTile(all, most) : most;
    }
  };
  return ceilDivide(all, std::visit(pixels, candidate.tile) * candidate.iterations);
}

/** How the filters of a tile lie that are in parts. */
std::optional<HalvesLayout> partsOf(const Candidate& candidate) {
  const auto halves = []<typename Tile>(const Tile& tile) -> std::optional<HalvesLayout> {
    if constexpr (requires { tile.halves(); }) return tile.halves();
    return std::nullopt;
  };
  return std::visit(halves, candidate.tile);
}

bool readsCopies(const Candidate& candidate) {
  const auto isWhole = []<typename Tile>(const Tile&) {
    if constexpr (requires { Tile::kFamily; }) return Tile::kFamily.filters == FilterSource::whole;
    return false;
  };
  return std::visit(isWhole, candidate.tile);
}

/** With the copies that are wanted, unless the form is there with others: then best more, as few as there are. */
CopiedForm copied(int wanted, int64_t copyBytes, const std::function<FilterForm(int copies)>& formOf,
                  const Weights& weights) {
  const int most = copiesOf(copyBytes, std::numeric_limits<int64_t>::max());
  const auto with = [&](int copies) { return CopiedForm{formOf(copies), copies, std::min(copies, wanted), copyBytes}; };
  for (int copies = wanted; copies <= most; copies *= 2) {
    if (const CopiedForm more = with(copies); more.form.isIn(weights)) return more;
  }
  for (int copies = wanted / 2; copies > 0; copies /= 2) {
    if (const CopiedForm fewer = with(copies); fewer.form.isIn(weights)) return fewer;
  }
  return with(wanted);
}

CopiedForm transposedForm(const ConvProblem& x, int64_t readingTiles, const Weights& weights) {
  const int64_t bytes = 4 * x.groups * x.groupInputs() * transposedPitch(x);
  const auto formOf = [&](int copies) { return makeForm(FilterOrder::transposed, x, copies * bytes, copies); };
  return copied(copiesOf(bytes, readingTiles), bytes, formOf, weights);
}

int64_t roundedSteps(const ConvProblem& x) { return roundUp(x.groupInputs(), kWindowFilterSteps); }

/** Whether rounded filters in window order lie as transposed ones do: groups follow each other, or there is but one. */
bool mayBeRounded(const ConvProblem& x) { return x.groups == 1 || x.groupInputs() == roundedSteps(x); }

}  // namespace

int64_t transposedPitch(const ConvProblem& x) { return windowFilterPitch(x); }

FilterForms formsOf(const ConvProblem& x, const Candidate& candidate, const Weights& weights) {
  const int64_t pixelTiles = pixelTilesOf(x, candidate);
  FilterForms forms;
  const std::optional<HalvesLayout> halved = partsOf(candidate);
  forms.isRounded = halved && mayBeRounded(x);
  forms.transposed = forms.isRounded ? CopiedForm{windowsForm(x, roundedSteps(x), true)}
                                     : transposedForm(x, readsCopies(candidate) ? pixelTiles : 1, weights);
  if (!halved) return forms;
  const HalvesLayout& layout = forms.layout = *halved;
  forms.filterTiles = static_cast<int>(ceilDivide(x.groupOutputs(), layout.filters));
  forms.steps = static_cast<int>(ceilDivide(x.groupInputs(), layout.stepChannels));
  const int64_t tiles = x.groups * forms.filterTiles;
  const int64_t copyBytes = tiles * forms.steps * layout.stepBytes();
  const int64_t inverseBytes = layout.isScaled() ? 4 * tiles * layout.filters : 0;
  const int64_t order = layout.filters | layout.isPaired << 8 | layout.stepChannels << 16 | layout.parts << 24;
  const auto bytesBefore = [&](int copies) { return copies * copyBytes + kStepsBeyond * layout.stepBytes(); };
  const auto formOf = [&](int copies) {
    return makeForm(FilterOrder::halves, x, bytesBefore(copies) + inverseBytes, order, copies);
  };
  forms.halves = copied(copiesOf(copyBytes, pixelTiles), copyBytes, formOf, weights);
  forms.inversesAt = bytesBefore(forms.halves->copies);
  return forms;
}

}  // namespace warpconv::cuda::pointwise
