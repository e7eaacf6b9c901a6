#pragma once

#include "cpu/microkernels/microkernel.h"

/** Microkernel::pack and Microkernel::store in plain C++, for every instruction set that has nothing better. */
namespace warpconv::portable {

void pack(const WindowTile& tile, float* dst);
void store(const OutputTile& tile, const float* sums);

}  // namespace warpconv::portable
