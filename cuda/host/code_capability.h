#pragma once

#include "status.h"

namespace warpconv::cuda {

/**
 * 10 * major + minor of the compute capability that the kernels were compiled for which the current device runs. Fails
 * where it can run none.
 */
Result<int> codeCapability();

}  // namespace warpconv::cuda
