#pragma once

#include <span>
#include <string_view>

#include "status.h"

namespace warpconv {

/** ReLU6 is a clip; every other activation of the public contract has a kind of its own. Networks have gelu, too. */
enum class ActivationKind { none, relu, leakyRelu, clip, sigmoid, silu, hardSwish, gelu };

/** The function applied to an output after bias and residual. */
struct Activation {
  ActivationKind kind = ActivationKind::none;
  /** clip: lower bound; leakyRelu: slope below zero */
  float first = 0;
  /** clip: upper bound */
  float second = 0;

  bool operator==(const Activation&) const = default;
};

/** By the public name and its parameters; fails with invalidArgument for a name or a count that does not exist. */
Result<Activation> makeActivation(std::string_view name, std::span<const double> parameters);

}  // namespace warpconv
