#pragma once

#include <cstdint>

#include "problem/activation.h"

namespace warpconv {

/**
 * Finishes `count` adjacent outputs of one channel in place: values = activation(values + bias + residual).
 * `residual` lies at the same positions, or is null. NaN passes through every activation.
 */
void finishOutputs(float* values, int64_t count, float bias, const float* residual, const Activation& activation);

}  // namespace warpconv
