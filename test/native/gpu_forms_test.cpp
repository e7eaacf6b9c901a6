#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <tuple>
#include <vector>

#include "cuda/halo/plan.h"
#include "cuda/im2win/window_order.h"
#include "cuda/planning/packed_choice.h"
#include "cuda/pointwise/filter_forms.h"
#include "divide.h"
#include "planner/choose.h"
#include "support/planned_algorithms.h"
#include "support/resnet50.h"
#include "weights/second_form.h"

// Which forms of filters the convolutions of many shapes share: their kernels need nvcc, what they ask for does not.

using namespace warpconv;
using cuda::DeviceFilters;
using cuda::FilterForm;
using cuda::GpuAlgorithm;

namespace {

constexpr cuda::GpuTraits kH100{90, 132, 65536, 228 * 1024, 227 * 1024, int64_t{50} << 20, 66.9e12, 3.35e12};

void keep(const FilterForm& form, Weights& weights) {
  const auto made =
      weights.form<DeviceFilters>(form.parameters, [&](const float*) -> Result<std::shared_ptr<const DeviceFilters>> {
        return std::make_shared<const DeviceFilters>(DeviceFilters{nullptr, form.bytes});
      });
  REQUIRE(made.isOk());
}

/** A network's filters on a device, as far as a planner sees them. */
class Network {
 public:
  /** Milliseconds of its convolutions, and of the fastest that there are. */
  struct Times {
    double taken = 0, fastest = 0;
  };

  Times prepare(const std::vector<ConvProblem>& convolutions) {
    while (weights_.size() < convolutions.size()) {
      const ConvProblem& x = convolutions[weights_.size()];
      weights_.push_back(std::make_unique<Weights>(nullptr, x.k, x.filterSize()));
    }
    Times times;
    for (size_t i = 0; i < convolutions.size(); ++i) {
      const Times one = prepare(convolutions[i], *weights_[i]);
      CHECK(one.taken <= kLeastGainOfSecondForm * one.fastest);
      times.taken += one.taken, times.fastest += one.fastest;
    }
    return times;
  }

  int64_t bytes() const {
    return std::accumulate(weights_.begin(), weights_.end(), int64_t{0},
                           [](int64_t sum, const auto& weights) { return sum + weights->bytes(); });
  }

 private:
  static Times prepare(const ConvProblem& problem, Weights& weights) {
    cuda::GpuRequest request{problem, {}, "", kH100};
    std::vector<Candidate> candidates;
    for (const GpuAlgorithm& one : test::kPlannedAlgorithms) {
      candidates.push_back(answer(one.name, one.refusal(request), {}, [&] { return one.estimate(request); }));
    }
    const size_t fastest = choose(candidates, {}, "cuda:0").value();
    const auto choice = cuda::choosePacked(test::kPlannedAlgorithms, candidates, fastest, {}, request, weights);
    request.variant = choice.variant;
    const GpuAlgorithm& algorithm = test::kPlannedAlgorithms[choice.algorithm];
    for (const FilterForm& form : algorithm.forms(request, weights)) keep(form, weights);
    return {choice.candidate.estimate.milliseconds, candidates[fastest].estimate.milliseconds};
  }

  std::vector<std::unique_ptr<Weights>> weights_;
};

int64_t bytesAlone(int64_t batch) {
  Network network;
  const Network::Times times = network.prepare(test::resNet50(batch).convolutions());
  // With nothing there, nothing is preferred.
  CHECK(times.taken == times.fastest);
  return network.bytes();
}

}  // namespace

TEST_CASE("twelve batch sizes of ResNet-50 share their filters, whichever comes first, and lose little time") {
  std::vector<int64_t> batches(12);
  std::iota(batches.begin(), batches.end(), 1);
  int64_t most = 0;
  for (const int64_t batch : batches) most = std::max(most, bytesAlone(batch));
  std::mt19937 random(1);
  for (int order = 0; order < 6; ++order) {
    Network network;
    for (const int64_t batch : batches) {
      const Network::Times times = network.prepare(test::resNet50(batch).convolutions());
      INFO("batch " << batch << " of order " << order);
      CHECK(times.taken <= 1.06 * times.fastest);
    }
    INFO("order " << order);
    // Some 1x1 filters lie transposed for a batch of eight and more, and in halves, too, once few images come.
    CHECK(network.bytes() <= most + most / 6);
    order == 0 ? std::reverse(batches.begin(), batches.end()) : std::shuffle(batches.begin(), batches.end(), random);
  }
}

TEST_CASE("a pinned algorithm prefers filters that are there, another one does not take its place") {
  ConvRequest asked;
  asked.weightDims = {256, 1024, 1, 1};
  asked.inputDims = {1, 1024, 14, 14};
  const ConvProblem small = makeConvProblem(asked).value();
  asked.inputDims = {6, 1024, 14, 14};
  const ConvProblem large = makeConvProblem(asked).value();
  const cuda::GpuRequest requests[] = {{small, {}, "", kH100}, {large, {}, "", kH100}};
  Weights weights(nullptr, large.k, large.filterSize());
  for (const FilterForm& form : cuda::formsPointwise(requests[0], weights)) keep(form, weights);
  REQUIRE_FALSE(cuda::areIn(cuda::formsPointwise(requests[1], weights), weights));
  std::vector<Candidate> candidates;
  for (const GpuAlgorithm& one : test::kPlannedAlgorithms) {
    candidates.push_back(answer(one.name, one.refusal(requests[1]), {}, [&] { return one.estimate(requests[1]); }));
  }
  PlanRequest pinned;
  pinned.algorithm = "pointwise";
  const auto choice = cuda::choosePacked(test::kPlannedAlgorithms, candidates, 0, pinned, requests[1], weights);
  CHECK(choice.candidate.algorithm == "pointwise");
  cuda::GpuRequest chosen = requests[1];
  chosen.variant = choice.variant;
  const bool isThere = cuda::areIn(cuda::formsPointwise(chosen, weights), weights);
  CHECK(isThere == !choice.variant.empty());
  // What has a variant is as it is asked for.
  cuda::GpuRequest fixed = requests[1];
  fixed.variant = "64x64x1";
  CHECK(cuda::choosePacked(test::kPlannedAlgorithms, candidates, 0, pinned, fixed, weights).variant == "64x64x1");
}

TEST_CASE("halo's filters of the same form are in the same order") {
  std::mt19937 random(2);
  const auto pick = [&](int64_t least, int64_t most) {
    return least + static_cast<int64_t>(random()) % (most - least + 1);
  };
  using Order = std::tuple<std::vector<uint8_t>, int64_t, int64_t, int64_t>;
  std::map<std::tuple<Weights::Parameters, int64_t, int64_t>, Order> orders;
  int shared = 0;
  for (int round = 0; round < 4000; ++round) {
    ConvRequest asked;
    asked.inputDims = {pick(1, 3), pick(1, 3) * 8, pick(9, 20), pick(9, 20)};
    asked.weightDims = {pick(1, 2) * 70, asked.inputDims[1], pick(2, 4), pick(2, 4)};
    asked.stride = {pick(1, 3), pick(1, 3)};
    asked.dilation = {pick(1, 3), pick(1, 3)};
    asked.padding = {pick(0, 2), pick(0, 2), pick(0, 2), pick(0, 2)};
    const auto made = makeConvProblem(asked);
    if (!made.isOk()) continue;
    const ConvProblem& x = made.value();
    for (const cuda::halo::Layout& layout : cuda::halo::layoutsOf(x)) {
      const cuda::halo::Grid grid = cuda::halo::makeGrid(x, layout);
      for (int tile = 0; tile < cuda::halo::kTileCount; ++tile) {
        const FilterForm form = cuda::halo::formOf(x, {layout, tile});
        const Order order{grid.order.taps, cuda::halo::chunksOf(x, grid), layout.fold.h, layout.fold.w};
        const auto [place, isNew] = orders.insert({{form.parameters, x.k, x.filterSize()}, order});
        REQUIRE(place->second == order);
        shared += !isNew;
      }
    }
  }
  CHECK(shared > 1000);
}

TEST_CASE("orders of windows of the same key are the same, and batch is no part of it") {
  std::mt19937 random(3);
  std::map<std::vector<int64_t>, std::vector<cuda::im2win::WindowStep>> orders;
  const auto isSame = [](const auto& a, const auto& b) { return a.offset == b.offset && a.bits == b.bits; };
  int shared = 0;
  for (int round = 0; round < 4000; ++round) {
    ConvRequest asked;
    const auto pick = [&](int64_t most) { return 1 + static_cast<int64_t>(random()) % most; };
    asked.inputDims = {pick(4), 2, 8 + pick(2), 8 + pick(2)};
    asked.weightDims = {4, 2, pick(3), pick(3)};
    asked.stride = {pick(2), pick(2)};
    asked.dilation = {pick(2), pick(2)};
    const ConvProblem x = makeConvProblem(asked).value();
    const cuda::Shape shape = cuda::shapeOf(x);
    const int width = static_cast<int>(x.w), length = 32 + static_cast<int>(pick(2));
    const auto check = [&](const std::vector<int64_t>& key, const std::vector<cuda::im2win::WindowStep>& order) {
      const auto [place, isNew] = orders.insert({key, order});
      REQUIRE(std::ranges::equal(place->second, order, isSame));
      shared += !isNew;
    };
    check(cuda::im2win::inputOrderKey(shape, length), cuda::im2win::inputOrder(shape, length));
    check(cuda::im2win::tensorOrderKey(shape, width, length), cuda::im2win::tensorOrder(shape, width, length));
  }
  CHECK(shared > 1000);
}

TEST_CASE("halved filters have room for the whole chunks that the last block of a cluster reads") {
  std::mt19937 random(4);
  const auto chunkSteps = []<typename Tile>(const Tile& tile) -> int64_t {
    if constexpr (requires { tile.chunkSteps(); }) {
      return tile.chunkSteps();
    } else if constexpr (requires { tile.chunkSteps; }) {
      return tile.chunkSteps;
    }
    return 0;
  };
  int halved = 0;
  for (int round = 0; round < 300; ++round) {
    ConvRequest asked;
    const auto pick = [&](int64_t most) { return 1 + static_cast<int64_t>(random()) % most; };
    asked.groups = pick(2);
    asked.inputDims = {pick(4), asked.groups * pick(300), pick(30), pick(30)};
    asked.weightDims = {asked.groups * pick(200), asked.inputDims[1] / asked.groups, 1, 1};
    const ConvProblem x = makeConvProblem(asked).value();
    for (const auto& candidate : cuda::pointwise::planPointwise(x, kH100)) {
      Weights weights(nullptr, x.k, x.filterSize());
      const auto forms = cuda::pointwise::formsOf(x, candidate, weights);
      if (!forms.halves) continue;
      ++halved;
      const int64_t chunk = std::visit(chunkSteps, candidate.tile);
      const int64_t ofBlock =
          cuda::pointwise::channelsOfBlock(x.groupInputs(), forms.layout.stepChannels, candidate.split) /
          forms.layout.stepChannels;
      const int64_t lastTile = (x.groups * forms.filterTiles - 1) * forms.steps;
      const int64_t end = lastTile + (candidate.split - 1) * ofBlock + roundUp(ofBlock, chunk);
      INFO(describe(x) << ", " << candidate.name());
      const int64_t before = (forms.halves->copies - 1) * forms.halves->copyBytes;
      REQUIRE(before + end * forms.layout.stepBytes() <= forms.inversesAt);
      REQUIRE(forms.inversesAt <= forms.halves->form.bytes);
    }
  }
  CHECK(halved > 1000);
}

TEST_CASE("filters that lie several times serve kernels that read fewer copies, or more") {
  ConvRequest asked;
  asked.weightDims = {96, 16, 1, 1};
  asked.inputDims = {1, 16, 112, 112};
  const ConvProblem x = makeConvProblem(asked).value();
  const auto candidates = cuda::pointwise::planPointwise(x, kH100);
  const auto stream = std::ranges::find_if(
      candidates, [](const auto& one) { return std::holds_alternative<cuda::pointwise::StreamTile>(one.tile); });
  const auto gemm = std::ranges::find_if(
      candidates, [](const auto& one) { return std::holds_alternative<cuda::pointwise::FmaTile>(one.tile); });
  REQUIRE(stream != candidates.end());
  REQUIRE(gemm != candidates.end());
  const auto transposed = [&](const auto& candidate, const Weights& weights) {
    return cuda::pointwise::formsOf(x, candidate, weights).transposed;
  };
  Weights none(nullptr, x.k, x.filterSize()), copies(nullptr, x.k, x.filterSize()), one(nullptr, x.k, x.filterSize());
  const auto wanted = transposed(*stream, none);
  REQUIRE(wanted.copies > 1);
  CHECK(wanted.copiesRead == wanted.copies);
  CHECK(wanted.form.bytes == wanted.copies * wanted.copyBytes);
  CHECK(transposed(*gemm, none).copies == 1);
  keep(wanted.form, copies);
  CHECK(transposed(*gemm, copies).copies == wanted.copies);
  CHECK(transposed(*gemm, copies).copiesRead == 1);
  keep(transposed(*gemm, none).form, one);
  CHECK(transposed(*stream, one).copies == 1);
  CHECK(transposed(*stream, one).copiesRead == 1);
}
