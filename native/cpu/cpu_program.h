#pragma once

#include <memory>

#include "cpu/convolution.h"
#include "program/program.h"

namespace warpconv {

class CpuBackend;

/** Chooses each convolution's algorithm and packs its weights. `executor` outlives the program.
 */
Result<std::shared_ptr<const program::PreparedProgram>> prepareCpuProgram(program::ProgramSpec spec,
                                                                          const CpuBackend& backend,
                                                                          Executor& executor);

}  // namespace warpconv
