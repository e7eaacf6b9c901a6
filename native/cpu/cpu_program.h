#pragma once

#include <memory>

#include "backend/prepared_program.h"
#include "cpu/algorithm/cpu_algorithm.h"
#include "cpu/cpu_store.h"
#include "program/program_spec.h"

namespace warpconv {

class CpuBackend;

/** Chooses each convolution's algorithm and packs its weights, unless they are in the store. `executor` outlives it. */
Result<std::shared_ptr<const program::PreparedProgram>> prepareCpuProgram(program::ProgramSpec spec,
                                                                          const CpuBackend& backend,
                                                                          std::shared_ptr<CpuStore> store,
                                                                          Executor& executor);

}  // namespace warpconv
