#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "problem/activation.h"
#include "problem/conv_problem.h"
#include "problem/sconv_switches.h"

namespace warpconv {

/**
 * The least exact products that may be made: of float32, of its upper 19 bits, or of halves. Sums are made in float32,
 * or more exactly.
 */
enum class Precision { fp32, tf32, fp16, bf16 };

/** What may be chosen. */
struct PlanRequest {
  /** `auto`, the name of an algorithm, or `tune`, which is like `auto` for as long as nothing has been measured */
  std::string algorithm = "auto";
  /** On a GPU: a variant of the pinned algorithm, for ablations; empty for its own choice */
  std::string variant = {};
  /** Bytes of scratch memory a running call may take; no limit when absent */
  std::optional<int64_t> workspaceLimit = std::nullopt;
  Precision precision = Precision::fp32;
  /** For experiments with `sconv`, which must then be pinned */
  sconv::Switches switches = {};

  /** Integers that float32 has, and sums that it has, must come out exactly: no products of fractions of them */
  bool keepsIntegers = false;

  bool operator==(const PlanRequest&) const = default;
};

/** What is asked of a device. */
struct PlanProblem {
  ConvProblem problem;
  Activation activation;
  PlanRequest request;

  bool operator==(const PlanProblem&) const = default;
};

}  // namespace warpconv
