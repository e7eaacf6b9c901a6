#pragma once

#include <napi.h>

#include <array>
#include <cstdint>
#include <string>
#include <utility>

#include "backend/backend.h"

namespace warpconv::binding {

/** A ConvolutionSpec of lib/addon.ts as the core's types. */
struct Specification {
  PlanProblem asked;
  /** The N of `cuda:N`, or -1 for the CPU */
  int device;
};

/** All of these throw a Failure where the value is something else. `name` is for its message. */
int64_t toInteger(const Napi::Value& value, const std::string& name);
/** From `least` to `most`, both included */
int64_t toInteger(const Napi::Value& value, const std::string& name, int64_t least, int64_t most);
/** Elements or bytes: from 0 */
int64_t toSize(const Napi::Value& value, const std::string& name);
/** The N of `cuda:N` */
int toDevice(const Napi::Value& value);
Napi::Object toObject(const Napi::Value& value, const std::string& name);
Napi::Array toList(const Napi::Value& value, const std::string& name);
Napi::Function toFunction(const Napi::Value& value, const char* name);
Activation toActivation(const Napi::Value& value);
/** NCHW for undefined and null */
Layout toLayout(const Napi::Value& value, const char* name);
/** fp32 for undefined and null */
Precision toPrecision(const Napi::Value& value, const char* name);

/** Throws where the problem is illegal, too. */
Specification toSpecification(const Napi::Value& value);

/** Address and number of the bytes of any typed array. */
std::pair<void*, int64_t> toBytes(const Napi::Value& value, const char* name);

/** The elements of a Float32Array of exactly `elements`. */
float* toFloats(const Napi::Value& value, const char* name, int64_t elements);

/** Elements in CPU memory. */
struct TypedElements {
  FloatType type;
  /** Null for no tensor */
  const void* data;
};

/**
 * Exactly `elements` in a Float32Array, or of `type` in an array that holds it: those of 16 bits also as their bits in
 * a Uint16Array.
 */
TypedElements toFloatsOr(FloatType type, const Napi::Value& value, const char* name, int64_t elements);

/** The same, with none for a JavaScript null. */
TypedElements toOptionalFloatsOr(FloatType type, const Napi::Value& value, const char* name, int64_t elements);

/** `elements` of that type in an array that holds it, or in a GpuBuffer of that device. */
Operand toOperand(const Napi::Value& value, const char* name, FloatType type, int64_t elements, int device);

/** The same, with neither for a JavaScript null. */
Operand toOptionalOperand(const Napi::Value& value, const char* name, FloatType type, int64_t elements, int device);

/** Extents as a JavaScript array of numbers. */
Napi::Array toArray(Napi::Env env, const std::array<int64_t, 4>& dims);

}  // namespace warpconv::binding
