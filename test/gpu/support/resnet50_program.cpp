#include "support/resnet50_program.h"

#include <cmath>
#include <utility>

#include "support/reference.h"
#include "support/resnet50.h"

// Steps are given what a network needs.
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

namespace warpconv::test {

using namespace program;
using Space = Buffer::Space;

namespace {

constexpr int64_t kChannels = 2048, kLastArea = 49;
/** Elements of an image's largest tensors: between blocks, of which three live at once, and within them */
constexpr int64_t kOuter = 64 * 112 * 112, kReduced = 128 * 56 * 56, kSpatial = 64 * 56 * 56;

/** Reals that keep the size of what they are summed with. */
std::vector<float> reals(int64_t count, int64_t summed, std::mt19937& random) {
  std::vector<float> values(static_cast<size_t>(count));
  fillWithReals(values, random);
  const auto scale = static_cast<float>(std::sqrt(3.0 / static_cast<double>(summed)));
  for (float& value : values) value *= scale;
  return values;
}

/** Adds convolutions, each with the next weights. */
class Layers {
 public:
  explicit Layers(ProgramSpec& spec) : spec_(spec) {}

  void add(const ConvProblem& problem, bool isActive, const Buffer& input, const Buffer& residual,
           const Buffer& output) {
    ConvolutionStep step{problem, makeActivation(isActive ? "relu" : "none", {}).value(), {}};
    step.input = input, step.residual = residual, step.output = output;
    step.weight = {Space::constant, next_++, 0};
    step.bias = {Space::constant, next_++, 0};
    spec_.steps.push_back(step);
  }
  int64_t next() { return next_++; }

 private:
  ProgramSpec& spec_;
  int64_t next_ = 0;
};

}  // namespace

ResNet50Program::ResNet50Program(std::mt19937& random) {
  for (const ConvProblem& one : resNet50(1).convolutions()) {
    weights_.push_back(reals(one.weightSize(), one.filterSize(), random));
    weights_.push_back(reals(one.k, 100, random));
  }
  weights_.push_back(reals(kChannels * kClasses, kChannels, random));
  weights_.push_back(reals(kClasses, 100, random));
}

ProgramSpec ResNet50Program::spec(int64_t batch) const {
  const ResNet50 network = resNet50(batch);
  int64_t end = 0;
  const auto arena = [&](int64_t elements) {
    return Buffer{Space::arena, 0, std::exchange(end, end + 4 * batch * elements)};
  };
  Buffer input = arena(kOuter), output = arena(kOuter), projected = arena(kOuter);
  const Buffer reduced = arena(kReduced), spatial = arena(kSpatial);
  ProgramSpec spec;
  Layers layers(spec);
  layers.add(network.stem, true, {Space::input, 0, 0}, {}, output);
  PoolStep pool{.planes = batch * 64, .h = 112, .w = 112, .p = 56, .q = 56, .r = 3, .s = 3, .stride = {2, 2},
                .padding = {1, 1}};
  pool.input = output, pool.output = input;
  spec.steps.push_back(pool);
  for (const Bottleneck& block : network.blocks) {
    layers.add(block.reduce, true, input, {}, reduced);
    layers.add(block.spatial, true, reduced, {}, spatial);
    // In the order of the weights the projection comes after what adds to it.
    const bool hasProjection = !block.projection.empty();
    layers.add(block.expand, true, spatial, hasProjection ? projected : input, output);
    if (hasProjection) {
      layers.add(block.projection[0], false, input, {}, projected);
      std::swap(spec.steps.end()[-1], spec.steps.end()[-2]);
    }
    std::swap(input, output);
  }
  ReduceStep mean{.mode = ReduceStep::Mode::mean, .outer = batch * kChannels, .reduced = kLastArea};
  mean.input = input, mean.output = reduced;
  MatmulStep classifier{.m = batch, .n = kClasses, .k = kChannels, .leftStrides = {kChannels, 1},
                        .rightStrides = {kClasses, 1}, .biasStrides = {0, 1}};
  classifier.left = reduced, classifier.output = {Space::output, 0, 0};
  classifier.right = {Space::constant, layers.next(), 0};
  classifier.bias = {Space::constant, layers.next(), 0};
  spec.steps.insert(spec.steps.end(), {mean, classifier});
  for (const std::vector<float>& one : weights_) {
    spec.constants.push_back(one.data());
    spec.constantBytes.push_back(static_cast<int64_t>(one.size() * sizeof(float)));
    spec.sharedConstants.push_back(true);
  }
  spec.arenaBytes = end;
  spec.inputBytes = {4 * batch * kImage};
  spec.outputBytes = {4 * batch * kClasses};
  return spec;
}

}  // namespace warpconv::test
