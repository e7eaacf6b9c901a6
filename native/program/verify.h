#pragma once

#include "program/program_spec.h"
#include "status.h"

namespace warpconv::program {

/**
 * Checks that no step of a program reads or writes outside of its buffers, whatever JavaScript has put into it: extents
 * and strides against the bytes of inputs, outputs, constants and scratch memory; numbers of operands, values and
 * positions; steps that write to what only may be read. Elements that decide at run time, the indices of a gather, are
 * checked there. Fails with `internal`, naming the step: the compiler in lib/model makes no such program.
 */
Status verify(const ProgramSpec& program);

}  // namespace warpconv::program
