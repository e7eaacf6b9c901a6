#pragma once

#include <limits>

#include "problem/activation.h"

namespace warpconv::cuda {

/**
 * An activation as kernels have it: of none, relu and clip, which are bounds, `first` is the lower one and `second` the
 * upper one.
 */
struct BoundedActivation {
  ActivationKind kind = ActivationKind::none;
  float first = -std::numeric_limits<float>::infinity(), second = std::numeric_limits<float>::infinity();

  BoundedActivation() = default;
  BoundedActivation(const Activation& activation) : kind(activation.kind) {
    if (kind == ActivationKind::relu) first = 0.0f;
    if (kind != ActivationKind::none && kind != ActivationKind::relu) {
      first = activation.first, second = activation.second;
    }
  }
};

}  // namespace warpconv::cuda
