#pragma once

#include "cpu/vector/elementary.h"
#include "cpu/vector_loops/few_rows.h"
#include "cpu/vector_loops/folds.h"
#include "cpu/vector_loops/vector_loops.h"
#include "cpu/vector_loops/windows.h"

/**
 * VectorLoops, written once over plain loops, which the compiler turns into vector code, and over a vector type. Each
 * instruction set's file instantiates them; everything is local to it, as elementary.h explains.
 */
namespace warpconv {
namespace {

using Operation = program::ElementwiseStep::Operation;

template <typename Body>
void loopOfOne(const float* a, const float*, float* __restrict to, int64_t count, float p, float q) {
  for (int64_t i = 0; i < count; ++i) to[i] = Body{}(a[i], p, q);
}

template <typename Body>
void loopOfTwo(const float* a, const float* b, float* __restrict to, int64_t count, float, float) {
  for (int64_t i = 0; i < count; ++i) to[i] = Body{}(a[i], b[i]);
}

/** body(a, b), body(x), or body(x, p, q) of each element */
template <typename Body>
constexpr VectorLoops::Function ofTwo(Body) {
  return loopOfTwo<Body>;
}
template <typename Body>
constexpr VectorLoops::Function ofOne(Body) {
  return loopOfOne<decltype([](float x, float, float) { return Body{}(x); })>;
}
template <typename Body>
constexpr VectorLoops::Function withNumbers(Body) {
  return loopOfOne<Body>;
}

constexpr VectorLoops::Function functionOf(Operation operation) {
  switch (operation) {
    case Operation::add: return ofTwo([](float a, float b) { return a + b; });
    case Operation::subtract: return ofTwo([](float a, float b) { return a - b; });
    case Operation::multiply: return ofTwo([](float a, float b) { return a * b; });
    case Operation::divide: return ofTwo([](float a, float b) { return a / b; });
    case Operation::minimum: return ofTwo([](float a, float b) { return minimum(a, b); });
    case Operation::maximum: return ofTwo([](float a, float b) { return maximum(a, b); });
    // Powers, sines and cosines are the C library's: networks have few, and seldom large.
    case Operation::power: return ofTwo([](float a, float b) { return __builtin_powf(a, b); });
    case Operation::prelu: return ofTwo([](float a, float b) { return a < 0.0f ? a * b : a; });
    case Operation::constant: return withNumbers([](float, float p, float) { return p; });
    case Operation::affine: return withNumbers([](float x, float p, float q) { return x * p + q; });
    case Operation::negate: return ofOne([](float x) { return -x; });
    case Operation::absolute: return ofOne([](float x) { return absolute(x); });
    case Operation::relu: return ofOne([](float x) { return atLeast(x, 0.0f); });
    case Operation::leakyRelu: return withNumbers([](float x, float p, float) { return x < 0.0f ? p * x : x; });
    case Operation::clip: return withNumbers([](float x, float p, float q) { return atMost(atLeast(x, p), q); });
    case Operation::sigmoid: return ofOne([](float x) { return sigmoid(x); });
    case Operation::hardSigmoid:
      return withNumbers([](float x, float p, float q) { return atMost(atLeast(x * p + q, 0.0f), 1.0f); });
    case Operation::hardSwish: return ofOne([](float x) { return hardSwish(x); });
    case Operation::silu: return ofOne([](float x) { return silu(x); });
    case Operation::mish: return ofOne([](float x) { return mish(x); });
    case Operation::elu:
      return withNumbers([](float x, float p, float) { return x < 0.0f ? p * expm1UpTo80(x) : x; });
    case Operation::selu:
      return withNumbers([](float x, float p, float q) { return q * (x < 0.0f ? p * expm1UpTo80(x) : x); });
    case Operation::celu: return withNumbers([](float x, float p, float) { return celu(x, p); });
    case Operation::gelu: return ofOne([](float x) { return gelu(x); });
    case Operation::geluTanh: return ofOne([](float x) { return geluTanh(x); });
    case Operation::tanh: return ofOne([](float x) { return hyperbolicTangent(x); });
    case Operation::softplus: return ofOne([](float x) { return softplus(x); });
    case Operation::softsign: return ofOne([](float x) { return x / (1.0f + absolute(x)); });
    case Operation::exp: return ofOne([](float x) { return exponential(x); });
    case Operation::log: return ofOne([](float x) { return logarithm(x); });
    case Operation::sqrt: return ofOne([](float x) { return __builtin_sqrtf(x); });
    case Operation::reciprocal: return ofOne([](float x) { return 1.0f / x; });
    case Operation::floor: return ofOne([](float x) { return roundDown(x); });
    case Operation::ceil: return ofOne([](float x) { return roundUp(x); });
    case Operation::round: return ofOne([](float x) { return roundToEven(x); });
    case Operation::erf: return ofOne([](float x) { return errorFunction(x); });
    case Operation::sign: return ofOne([](float x) { return x > 0.0f ? 1.0f : (x < 0.0f ? -1.0f : x); });
    case Operation::sin: return ofOne([](float x) { return __builtin_sinf(x); });
    case Operation::cos: return ofOne([](float x) { return __builtin_cosf(x); });
  }
  return nullptr;
}

void expOfDifference(const float* values, float centre, float* __restrict to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] = exponential(values[i] - centre);
}

void rescale(const float* values, float centre, float factor, float summand, float* __restrict to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] = (values[i] - centre) * factor + summand;
}

void normalize(const float* values, float centre, float factor, const float* scale, const float* shift,
               float* __restrict to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] = (values[i] - centre) * factor * scale[i] + shift[i];
}

void localResponse(const float* values, const float* squares, float* __restrict to, int64_t count, float alpha,
                   float beta, float bias) {
  for (int64_t i = 0; i < count; ++i) {
    to[i] = values[i] * exponential(-beta * logarithm(bias + alpha * squares[i]));
  }
}

template <class Vector>
constexpr VectorLoops makeVectorLoops(Isa isa) {
  VectorLoops loops{isa,
                    Vector::kLanes,
                    {},
                    Folds<Vector>::sum,
                    Folds<Vector>::sumOfSquares,
                    Folds<Vector>::maximum,
                    Folds<Vector>::minimum,
                    expOfDifference,
                    rescale,
                    normalize,
                    localResponse,
                    windowLoopsOf<Vector::kLanes>([](auto a, auto b) { return maximum(a, b); }),
                    windowLoopsOf<Vector::kLanes>([](auto a, auto b) { return a + b; }),
                    FewRowsProduct<Vector>::multiplyColumns,
                    FewRowsProduct<Vector>::multiplyRows};
  for (int i = 0; i < VectorLoops::kOperations; ++i) loops.functions[i] = functionOf(static_cast<Operation>(i));
  return loops;
}

}  // namespace
}  // namespace warpconv
