#pragma once

#include "cpu/algorithm/cpu_algorithm.h"

namespace warpconv {

/**
 * F(2x2, 3x3) of Lavin & Gray, "Fast Algorithms for Convolutional Neural Networks" (2016), section 4.1: 16
 * multiplications for the 2 x 2 outputs of a tile, where the definition has 36. Takes 3 x 3 filters at stride 1.
 *
 * Output tile (i, j) is outputs (2i, 2j) to (2i + 1, 2j + 1); its input tile d, of 4 x 4, begins at row 2i -
 * padding.top and column 2j - padding.left. With m[k] = sum over c of U[k][c] * V[c], element by element, Y = A' m A is
 * the output tile, where U = G g G' is a filter and V = B' d B an input tile (' transposes):
 *
 *          1  0 -1  0           1    0    0
 *     B' = 0  1  1  0      G =  1/2  1/2  1/2     A' = 1  1  1  0
 *          0 -1  1  0           1/2 -1/2  1/2          0  1 -1 -1
 *          0  1  0 -1           0    0    1
 *
 * Each of the 16 elements, here "components", is a matrix product of filters and tiles, which the micro-kernels of
 * sconv compute. Where an output is not finite, its tile is computed again from the definition: NaN and infinity reach
 * exactly the windows that contain them, and sums that overflow on the way but not in the end are right. For
 * that the filters are kept as they were, too.
 */
extern const CpuAlgorithm kWinograd;

}  // namespace warpconv
