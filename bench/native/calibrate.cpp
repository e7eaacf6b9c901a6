// Fits the constants of one model of a GPU family's kernels to measured times: see bench/gpu/calibrate.ts. Or prints
// what kernels are predicted to take: see bench/gpu/kernel_families.ts.
//
//     calibrate GPU KERNELS               prints the constants before and after, and how well either set predicts
//     calibrate GPU KERNELS --predict     prints a line for each line of standard input: the milliseconds that are
//                                         predicted of its kernel, or - where the planner has no such kernel. All
//                                         kernels of a family are predicted, whichever of them KERNELS names.
//
// Constants are fitted to every other problem. How well they predict is printed of those, and of the others, which is
// what a prediction is worth where nobody measured.
//
// KERNELS are names of namedModels() below. Standard input has a line for each time of the family's kernels:
// N C H W K R S STRIDE PAD GROUPS VARIANT TILES MILLISECONDS, where TILES is as in splits=4,blockM=64, or - for none.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "cuda/halo/plan.h"
#include "cuda/im2win/plan.h"
#include "cuda/pointwise/planner.h"
#include "cuda/stem/plan.h"

namespace {

using namespace warpconv;
using namespace warpconv::cuda;

/**
 * Those that there are results of. Rates as Device finds them: clocks, of 1980 and 2619 MHz in the results, times what
 * a multiprocessor multiplies and a bus of 5,120 bits. Computed, not read from the device.
 */
GpuTraits traitsOf(std::string_view gpu) {
  constexpr int64_t kKilobyte = 1024;
  if (gpu == "NVIDIA H100 80GB HBM3") {
    return {90, 132, 65536, 228 * kKilobyte, 227 * kKilobyte, 50 * kKilobyte * kKilobyte, 66.9e12, 3.352e12};
  }
  throw std::runtime_error("nothing is known of the GPU '" + std::string(gpu) + "': add what cudaDeviceGetAttribute " +
                           "says of it to traitsOf in bench/native/calibrate.cpp");
}

/** A kernel that was timed. */
struct Kernel {
  std::string variant;
  std::map<std::string, int> tiles;
  double milliseconds;
  /** Of the input, from 0 */
  size_t line;

  int tileExtent(const std::string& name) const {
    const auto found = tiles.find(name);
    if (found == tiles.end()) throw std::runtime_error("the tiles of " + variant + " lack '" + name + "'");
    return found->second;
  }
};

/** One problem, and its kernels. */
struct Layer {
  GpuRequest request;
  std::vector<Kernel> kernels;

  double fastest() const {
    return std::min_element(kernels.begin(), kernels.end(),
                            [](const Kernel& a, const Kernel& b) { return a.milliseconds < b.milliseconds; })
        ->milliseconds;
  }
};

std::map<std::string, int> readTiles(const std::string& text) {
  std::map<std::string, int> tiles;
  if (text == "-") return tiles;
  std::istringstream all(text);
  for (std::string one; std::getline(all, one, ',');) {
    const size_t equals = one.find('=');
    if (equals == std::string::npos) {
      throw std::runtime_error("tiles must be as splits=4,blockM=64, got '" + text + "'");
    }
    tiles[one.substr(0, equals)] = std::stoi(one.substr(equals + 1));
  }
  return tiles;
}

std::vector<Layer> readLayers(std::istream& input, const GpuTraits& traits) {
  std::map<std::string, Layer> layers;
  std::string line;
  for (size_t number = 0; std::getline(input, line); ++number) {
    std::istringstream words(line);
    int64_t n, c, h, w, k, r, s, stride, pad, groups;
    std::string tiles;
    Kernel kernel;
    if (!(words >> n >> c >> h >> w >> k >> r >> s >> stride >> pad >> groups >> kernel.variant >> tiles >>
          kernel.milliseconds)) {
      throw std::runtime_error("a line must be N C H W K R S STRIDE PAD GROUPS VARIANT TILES MILLISECONDS, got '" +
                               line + "'");
    }
    kernel.tiles = readTiles(tiles);
    kernel.line = number;
    ConvRequest wanted;
    wanted.inputDims = {n, c, h, w}, wanted.weightDims = {k, c / groups, r, s};
    wanted.stride = {stride, stride}, wanted.padding = {pad, pad, pad, pad}, wanted.groups = groups;
    const Result<ConvProblem> problem = makeConvProblem(wanted);
    if (!problem.isOk()) throw std::runtime_error(std::string(problem.status().message()));
    GpuRequest request;
    request.problem = problem.value();
    request.traits = traits;
    const std::string key = line.substr(0, line.find(kernel.variant));
    layers.try_emplace(key, Layer{request, {}}).first->second.kernels.push_back(std::move(kernel));
  }
  std::vector<Layer> all;
  for (auto& [key, layer] : layers) all.push_back(std::move(layer));
  return all;
}

/** What a kernel is predicted to take, and whether the constants that are fitted have a part in it. */
struct Prediction {
  double milliseconds;
  bool isFitted;
};

/** Some kernels of a family, as what changes all of their constants sees them. */
struct Model {
  ModelConstants constants;
  /** Of a layer's kernels, in their order; nothing for one that has no prediction. */
  std::function<std::vector<std::optional<Prediction>>(const Layer&)> predict;
};

/** One that predicts each kernel by itself. */
template <typename Predict>
Model kernelModel(ModelConstants constants, Predict predictOne) {
  return {std::move(constants), [predictOne](const Layer& layer) {
            std::vector<std::optional<Prediction>> all;
            for (const Kernel& kernel : layer.kernels) all.push_back(predictOne(layer.request, kernel));
            return all;
          }};
}

/** Index in the tiles of a family, or nothing. */
template <typename Tiles>
std::optional<int> tileOf(const Tiles& tiles, const std::string& variant) {
  const auto found =
      std::find_if(std::begin(tiles), std::end(tiles), [&](const auto& tile) { return tile.variant == variant; });
  if (found == std::end(tiles)) return std::nullopt;
  return static_cast<int>(found - std::begin(tiles));
}

template <typename Tile>
Model pointwiseModel() {
  const auto models = std::make_shared<pointwise::Models>();
  const size_t kind = decltype(pointwise::Candidate::tile)(Tile{}).index();
  return {pointwise::constantsOf(models->template of<Tile>()), [models, kind](const Layer& layer) {
            std::map<std::string, Prediction> predictions;
            for (const auto& one : planPointwise(layer.request.problem, layer.request.traits, *models)) {
              predictions[one.name()] = {one.milliseconds, one.tile.index() == kind};
            }
            std::vector<std::optional<Prediction>> all;
            for (const Kernel& kernel : layer.kernels) {
              const auto found = predictions.find(kernel.variant);
              all.push_back(found == predictions.end() ? std::nullopt : std::optional(found->second));
            }
            return all;
          }};
}

Model im2winModel(im2win::Model im2win::Models::*fitted) {
  const auto models = std::make_shared<im2win::Models>(im2win::kModels);
  static constexpr auto memberOf = [](const im2win::GemmTile& tile) {
    return tile.byWarpgroups()    ? &im2win::Models::warpgroup
           : tile.onTensorCores() ? &im2win::Models::tensor
                                  : &im2win::Models::fma;
  };
  return kernelModel(im2win::constantsOf((*models).*fitted),
                     [models, fitted](const GpuRequest& request, const Kernel& kernel) -> std::optional<Prediction> {
                       const auto index = tileOf(im2win::kTiles, kernel.variant);
                       if (!index || *index < im2win::kFirstPlannedTile) return std::nullopt;
                       const im2win::GemmTile& tile = im2win::kTiles[*index].tile;
                       const double milliseconds =
                           im2win::gemmMilliseconds(request, tile, kernel.tileExtent("splits"), *models);
                       return Prediction{milliseconds, memberOf(tile) == fitted};
                     });
}

Model haloModel() {
  const auto model = std::make_shared<halo::Model>(halo::kModel);
  return kernelModel(halo::constantsOf(*model), [model](const GpuRequest& request, const Kernel& kernel) {
    const auto index = tileOf(halo::kTiles, kernel.variant);
    if (!index) return std::optional<Prediction>();
    const halo::Layout layout{{kernel.tileExtent("foldedRows"), kernel.tileExtent("foldedColumns")},
                              halo::kTiles[*index].tile.inParts};
    const halo::Grid grid = halo::makeGrid(request.problem, layout);
    return std::optional(
        Prediction{halo::milliseconds(request, *index, grid, kernel.tileExtent("splits"), *model), true});
  });
}

Model stemModel() {
  const auto model = std::make_shared<stem::Model>(stem::kModel);
  return kernelModel(stem::constantsOf(*model), [model](const GpuRequest& request, const Kernel& kernel) {
    const auto index = tileOf(stem::kTiles, kernel.variant);
    const auto plan = index ? stem::planTile(request, *index, *model) : std::nullopt;
    return plan ? std::optional(Prediction{plan->milliseconds, true}) : std::nullopt;
  });
}

struct NamedModel {
  std::string name;
  Model (*make)();
};

std::vector<NamedModel> namedModels() {
  std::vector<NamedModel> models;
  pointwise::Families::forEach([&]<typename Tile>() {
    const std::string_view family = Tile::kFamily.name;
    models.push_back({"pointwise-" + std::string(family.empty() ? "fma" : family), pointwiseModel<Tile>});
  });
  models.push_back({"im2win-fma", [] { return im2winModel(&im2win::Models::fma); }});
  models.push_back({"im2win-tensor", [] { return im2winModel(&im2win::Models::tensor); }});
  models.push_back({"im2win-warpgroup", [] { return im2winModel(&im2win::Models::warpgroup); }});
  models.push_back({"halo", haloModel});
  models.push_back({"stem", stemModel});
  return models;
}

Model modelOf(std::string_view name) {
  std::string known;
  for (const NamedModel& model : namedModels()) {
    if (model.name == name) return model.make();
    known += (known.empty() ? "" : ", ") + model.name;
  }
  throw std::runtime_error("KERNELS must be one of " + known + ", got '" + std::string(name) + "'");
}

struct Fit {
  /** Mean squared logarithm of measured by predicted, of the fitted kernels' times that matter; and how many do */
  double loss = 0;
  int count = 0;
  /** Of what is chosen, over the fastest measured: geometric mean, and the share of layers within a tenth */
  double regret = 1, within = 0;
};

/** Of kernels that are far from a layer's fastest it matters only that they are not predicted to be faster. */
constexpr double kNear = 1.8;
/** Those of a layer that are fast weigh more: between them the choice is made. */
constexpr double kFarWeight = 0.15;

Fit fitOf(const std::vector<Layer>& layers, const Model& model) {
  Fit fit;
  double squares = 0, weights = 0, regret = 0, within = 0;
  for (const Layer& layer : layers) {
    const double fastest = layer.fastest();
    const auto predictions = model.predict(layer);
    double chosen = fastest, least = INFINITY;
    for (size_t i = 0; i < predictions.size(); ++i) {
      if (!predictions[i]) continue;
      const auto [predicted, isFitted] = *predictions[i];
      const double measured = layer.kernels[i].milliseconds;
      if (predicted < least) least = predicted, chosen = measured;
      if (!isFitted) continue;
      const bool isNear = measured <= kNear * fastest;
      double error = std::log(measured / predicted);
      if (!isNear) error = std::max(error, 0.0);
      const double weight = isNear ? 1.0 : kFarWeight;
      squares += weight * error * error, weights += weight;
      fit.count += isNear ? 1 : 0;
    }
    regret += std::log(chosen / fastest), within += chosen <= 1.1 * fastest ? 1 : 0;
  }
  const auto count = static_cast<double>(layers.size());
  fit.loss = weights > 0 ? squares / weights : 0, fit.regret = std::exp(regret / count), fit.within = within / count;
  return fit;
}

/**
 * Changes one constant after another by a factor, as long as that makes the loss less, then by smaller ones. Zeros
 * stay: they say that a kind of kernels has no such cost.
 */
void search(const ModelConstants& constants, auto&& loss) {
  double best = loss();
  for (double factor = 1.3; factor > 1.002; factor = 1 + (factor - 1) * (2.0 / 3)) {
    for (bool isBetter = true; isBetter;) {
      isBetter = false;
      for (const auto& [name, value] : constants) {
        for (const double by : {factor, 1 / factor}) {
          const double before = *value;
          *value *= by;
          const double now = loss();
          if (now < best) {
            best = now, isBetter = true;
          } else {
            *value = before;
          }
        }
      }
    }
  }
}

void print(const char* when, const char* half, const Fit& fit) {
  std::printf(
      "%s, %s: off by %.1f %% (%d times near the fastest); what is chosen is %.1f %% slower than the fastest on "
      "average, and within 10 %% of it in %.0f %% of the problems\n",
      when, half, 100 * (std::exp(std::sqrt(fit.loss)) - 1), fit.count, 100 * (fit.regret - 1), 100 * fit.within);
}

/** Every other layer, from the first or the second on. */
std::vector<Layer> halfOf(const std::vector<Layer>& layers, size_t first) {
  std::vector<Layer> half;
  for (size_t i = first; i < layers.size(); i += 2) half.push_back(layers[i]);
  return half;
}

void calibrate(std::string_view gpu, std::string_view kernels) {
  const Model model = modelOf(kernels);
  const std::vector<Layer> layers = readLayers(std::cin, traitsOf(gpu));
  std::vector<double> before;
  for (const auto& [name, value] : model.constants) before.push_back(*value);
  const std::vector<Layer> fitted = halfOf(layers, 0), others = halfOf(layers, 1);
  const auto fit = [&] { return fitOf(fitted, model); };
  if (fitted.empty() || fit().count == 0) throw std::runtime_error("there is no time of these kernels to fit to");
  const auto printBoth = [&](const char* when) {
    print(when, "fitted half", fit());
    print(when, "other half", fitOf(others, model));
  };
  printBoth("before");
  search(model.constants, [&] { return fit().loss; });
  printBoth("after");
  for (size_t i = 0; i < before.size(); ++i) {
    std::printf("%-14s %12.4g -> %.4g\n", model.constants[i].name.c_str(), before[i], *model.constants[i].value);
  }
}

void predict(std::string_view gpu, std::string_view kernels) {
  const Model model = modelOf(kernels);
  std::map<size_t, std::optional<Prediction>> byLine;
  for (const Layer& layer : readLayers(std::cin, traitsOf(gpu))) {
    const auto predictions = model.predict(layer);
    for (size_t i = 0; i < predictions.size(); ++i) byLine[layer.kernels[i].line] = predictions[i];
  }
  for (const auto& [line, prediction] : byLine) {
    if (prediction) {
      std::printf("%.9g\n", prediction->milliseconds);
    } else {
      std::puts("-");
    }
  }
}

}  // namespace

int main(int count, char** arguments) {
  try {
    const bool isPrediction = count == 4 && std::string_view(arguments[3]) == "--predict";
    if (count != 3 && !isPrediction) throw std::runtime_error("usage: calibrate GPU KERNELS [--predict] < TIMES");
    (isPrediction ? predict : calibrate)(arguments[1], arguments[2]);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "calibrate: %s\n", error.what());
    return 1;
  }
}
