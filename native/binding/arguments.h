#pragma once

#include <napi.h>

#include "planner/planner.h"
#include "problem/conv_problem.h"

namespace warpconv::binding {

/** A ConvolutionSpec of lib/addon.ts as the core's types. */
struct Specification {
  ConvProblem problem;
  Activation activation;
  PlanRequest request;
};

/** Throws into JavaScript where the problem is illegal. */
Specification toSpecification(const Napi::Value& value);

/** The elements of a Float32Array of exactly `elements`; throws into JavaScript otherwise. `name` is for the message.
 */
float* toFloats(const Napi::Value& value, const char* name, int64_t elements);

/** The same, with null for a JavaScript null. */
float* toOptionalFloats(const Napi::Value& value, const char* name, int64_t elements);

Napi::Function toFunction(const Napi::Value& value, const char* name);

/** Extents as a JavaScript array of numbers. */
Napi::Array toArray(Napi::Env env, const std::array<int64_t, 4>& dims);

}  // namespace warpconv::binding
