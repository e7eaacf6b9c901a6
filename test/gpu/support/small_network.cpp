#include "support/small_network.h"

#include "support/reference.h"

// Steps are given what a test is about.
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

namespace warpconv::test {

using namespace program;
using Space = Buffer::Space;

namespace {

Buffer constant(int64_t index) { return {Space::constant, index, 0}; }
Buffer arena(int64_t element) { return {Space::arena, 0, element * 4}; }

}  // namespace

SmallNetwork::SmallNetwork(std::mt19937& random) : weights_(4) {
  const size_t sizes[] = {8 * 8 * 3 * 3, 8, 8 * 8, 8 * kClasses};
  for (size_t i = 0; i < weights_.size(); ++i) {
    weights_[i].resize(sizes[i]);
    fillWithIntegers(weights_[i], random);
  }
}

ProgramSpec SmallNetwork::spec(const std::string& algorithm, int64_t batch) const {
  const Buffer input{Space::input, 0, 0};
  const int64_t images = batch * kImage, maps = batch * 8;
  ConvRequest request;
  request.inputDims = {batch, 8, 14, 14};
  request.weightDims = {8, 8, 3, 3};
  request.padding = {1, 1, 1, 1};
  ConvolutionStep wide{makeConvProblem(request).value(), makeActivation("relu", {}).value(), {algorithm}};
  wide.input = input, wide.weight = constant(0), wide.bias = constant(1), wide.output = arena(0);
  request.weightDims = {8, 8, 1, 1};
  request.padding = {};
  ConvolutionStep narrow{makeConvProblem(request).value(), {}, {algorithm}};
  narrow.input = arena(0), narrow.weight = constant(2), narrow.residual = input, narrow.output = arena(images);
  // clip(x - 1) + y, which overwrites x.
  ElementwiseStep chain{.extents = {images}, .strides = {{1}, {1}}};
  chain.operands = {arena(images), arena(0)};
  chain.code = {{ElementwiseStep::Operation::affine, 0, 0, 1, -1},
                {ElementwiseStep::Operation::clip, 2, 0, -9, 9},
                {ElementwiseStep::Operation::add, 3, 1, 0, 0}};
  chain.output = arena(images);
  PoolStep pool{.planes = maps, .h = 14, .w = 14, .p = 7, .q = 7, .r = 2, .s = 2, .stride = {2, 2}};
  pool.input = arena(images), pool.output = arena(0);
  ReduceStep sum{.mode = ReduceStep::Mode::sum, .outer = maps, .reduced = 49};
  sum.input = arena(0), sum.output = arena(images);
  MatmulStep product{.m = batch, .n = kClasses, .k = 8, .leftStrides = {8, 1}, .rightStrides = {kClasses, 1}};
  product.left = arena(images), product.right = constant(3), product.output = {Space::output, 0, 0};
  ProgramSpec spec;
  spec.steps = {wide, narrow, chain, pool, sum, product};
  for (const std::vector<float>& weight : weights_) {
    spec.constants.push_back(weight.data());
    spec.constantBytes.push_back(static_cast<int64_t>(weight.size() * sizeof(float)));
    spec.sharedConstants.push_back(true);
  }
  spec.arenaBytes = 2 * images * 4;
  spec.inputBytes = {images * 4};
  spec.outputBytes = {batch * kClasses * 4};
  return spec;
}

std::vector<float> SmallNetwork::anyInput(std::mt19937& random, int64_t batch) {
  std::vector<float> values(static_cast<size_t>(batch * kImage));
  fillWithIntegers(values, random);
  return values;
}

}  // namespace warpconv::test
