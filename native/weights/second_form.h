#pragma once

namespace warpconv {

/**
 * How many times as fast a convolution has to become for weights to be kept in one more form. Most of a network's
 * memory are weights, and sessions see inputs of many extents: few choices between forms are worth much, and those are.
 */
inline constexpr double kLeastGainOfSecondForm = 1.25;

}  // namespace warpconv
