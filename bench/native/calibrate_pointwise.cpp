// Fits the constants of one of pointwise's models (cuda/pointwise/model.h) to measured times: see bench/calibrate.ts.
//
//     calibrate_pointwise GPU KERNELS     prints the constants before and after, and how well either set predicts
//
// KERNELS: fma, tensor, stream, streamTensor or warpgroup. Standard input has a line for each time:
// N C H W K STRIDE VARIANT MILLISECONDS.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "cuda/pointwise/planner.h"

namespace {

using namespace warpconv;
using namespace warpconv::cuda;
using namespace warpconv::cuda::pointwise;

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
                           "says of it to traitsOf in bench/native/calibrate_pointwise.cpp");
}

/** One problem: milliseconds by variant. */
struct Layer {
  ConvProblem problem;
  std::map<std::string, double> measured;

  double fastest() const {
    return std::min_element(measured.begin(), measured.end(), [](const auto& a, const auto& b) {
             return a.second < b.second;
           })->second;
  }
};

std::vector<Layer> readLayers(std::istream& input) {
  std::map<std::string, Layer> layers;
  std::string line;
  while (std::getline(input, line)) {
    std::istringstream words(line);
    int64_t n, c, h, w, k, stride;
    std::string variant;
    double milliseconds;
    if (!(words >> n >> c >> h >> w >> k >> stride >> variant >> milliseconds)) {
      throw std::runtime_error("a line must be N C H W K STRIDE VARIANT MILLISECONDS, got '" + line + "'");
    }
    ConvRequest request;
    request.inputDims = {n, c, h, w}, request.weightDims = {k, c, 1, 1}, request.stride = {stride, stride};
    const Result<ConvProblem> problem = makeConvProblem(request);
    if (!problem.isOk()) throw std::runtime_error(problem.status().message());
    const std::string key = line.substr(0, line.find(variant));
    layers.try_emplace(key, Layer{problem.value(), {}}).first->second.measured[variant] = milliseconds;
  }
  std::vector<Layer> all;
  for (auto& [key, layer] : layers) all.push_back(std::move(layer));
  return all;
}

/** A model as what changes all of its constants sees it. */
struct Fitted {
  std::vector<std::string> names;
  std::vector<double*> values;
  /** Of Candidate::tile */
  size_t kind;
};

template <typename AnyModel, size_t kCount>
Fitted fittedOf(AnyModel& model, const Constant<AnyModel> (&constants)[kCount], size_t kind) {
  Fitted fitted{{}, {}, kind};
  for (const auto& constant : constants) {
    fitted.names.emplace_back(constant.name);
    fitted.values.push_back(&(model.*constant.member));
  }
  return fitted;
}

Fitted fittedOf(Models& models, std::string_view kernels) {
  const auto kindOf = [](auto tile) { return decltype(Candidate::tile)(tile).index(); };
  if (kernels == "fma") return fittedOf(models.fma, kConstants, kindOf(GemmTile{}));
  if (kernels == "tensor") return fittedOf(models.tensor, kConstants, kindOf(TensorTile{}));
  if (kernels == "stream") return fittedOf(models.stream, kConstants, kindOf(StreamTile{}));
  if (kernels == "streamTensor") return fittedOf(models.streamTensor, kConstants, kindOf(StreamTensorTile{}));
  if (kernels == "warpgroup") return fittedOf(models.warpgroup, kWarpgroupConstants, kindOf(WarpgroupTile{}));
  throw std::runtime_error("KERNELS must be fma, tensor, stream, streamTensor or warpgroup, got '" +
                           std::string(kernels) + "'");
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

Fit fitOf(const std::vector<Layer>& layers, const Models& models, size_t kind, const GpuTraits& traits) {
  Fit fit;
  double squares = 0, weights = 0, regret = 0, within = 0;
  for (const Layer& layer : layers) {
    const double fastest = layer.fastest();
    double chosen = fastest, least = INFINITY;
    for (const Candidate& one : planPointwise(layer.problem, traits, models)) {
      const auto found = layer.measured.find(one.name());
      if (found == layer.measured.end()) continue;
      if (one.milliseconds < least) least = one.milliseconds, chosen = found->second;
      if (one.tile.index() != kind) continue;
      const bool isNear = found->second <= kNear * fastest;
      double error = std::log(found->second / one.milliseconds);
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
void search(const Fitted& fitted, auto&& loss) {
  double best = loss();
  for (double factor = 1.3; factor > 1.002; factor = 1 + (factor - 1) * (2.0 / 3)) {
    for (bool isBetter = true; isBetter;) {
      isBetter = false;
      for (double* const value : fitted.values) {
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

void print(const char* when, const Fit& fit) {
  std::printf("%s: off by %.1f %% (%d times near the fastest); what is chosen is %.1f %% slower than the fastest on "
              "average, and within 10 %% of it in %.0f %% of the problems\n",
              when, 100 * (std::exp(std::sqrt(fit.loss)) - 1), fit.count, 100 * (fit.regret - 1), 100 * fit.within);
}

void calibrate(std::string_view gpu, std::string_view kernels) {
  const GpuTraits traits = traitsOf(gpu);
  const std::vector<Layer> layers = readLayers(std::cin);
  Models models = kModels;
  const Fitted fitted = fittedOf(models, kernels);
  std::vector<double> before;
  for (const double* value : fitted.values) before.push_back(*value);
  const auto fit = [&] { return fitOf(layers, models, fitted.kind, traits); };
  if (layers.empty() || fit().count == 0) throw std::runtime_error("there is no time of these kernels to fit to");
  print("before", fit());
  search(fitted, [&] { return fit().loss; });
  print("after", fit());
  for (size_t i = 0; i < before.size(); ++i) {
    std::printf("%-14s %12.4g -> %.4g\n", fitted.names[i].c_str(), before[i], *fitted.values[i]);
  }
}

}  // namespace

int main(int count, char** arguments) {
  try {
    if (count != 3) throw std::runtime_error("usage: calibrate_pointwise GPU KERNELS < TIMES");
    calibrate(arguments[1], arguments[2]);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "calibrate_pointwise: %s\n", error.what());
    return 1;
  }
}
