#pragma once

#include <napi.h>

#include <string>

#include "planner/backend.h"

namespace warpconv::binding {

/** A ConvolutionSpec of lib/addon.ts as the core's types. */
struct Specification {
  PlanProblem asked;
  /** The N of `cuda:N`, or -1 for the CPU */
  int device;
};

/** These throw into JavaScript where the value is something else; `name` is for the message. */
int64_t toInteger(const Napi::Value& value, const std::string& name);
Napi::Object toObject(const Napi::Value& value, const std::string& name);
Activation toActivation(const Napi::Value& value);

/** Throws into JavaScript where the problem is illegal. */
Specification toSpecification(const Napi::Value& value);

/** The elements of a Float32Array of exactly `elements`; throws into JavaScript otherwise. `name` is for the message.
 */
float* toFloats(const Napi::Value& value, const char* name, int64_t elements);

/** The same, with null for a JavaScript null. */
float* toOptionalFloats(const Napi::Value& value, const char* name, int64_t elements);

/** `elements` floats in a Float32Array or in a GpuBuffer of that device; neither for a JavaScript null. */
Operand toOperand(const Napi::Value& value, const char* name, int64_t elements, int device);

Napi::Function toFunction(const Napi::Value& value, const char* name);

/** Extents as a JavaScript array of numbers. */
Napi::Array toArray(Napi::Env env, const std::array<int64_t, 4>& dims);

}  // namespace warpconv::binding
