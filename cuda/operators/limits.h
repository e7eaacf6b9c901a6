#pragma once

#include <optional>
#include <string>

#include "program/steps.h"

namespace warpconv::cuda::operators {

/**
 * The sentence that refuses a step whose offsets need more than the 31 bits that the kernels divide, or which has more
 * axes than they take; nothing for any other, convolutions among them, whose algorithms answer for themselves.
 */
std::optional<std::string> refusal(const program::Step& step);

}  // namespace warpconv::cuda::operators
