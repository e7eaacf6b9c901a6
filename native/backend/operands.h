#pragma once

#include <memory>

#include "memory/gpu_memory.h"

namespace warpconv {

/**
 * A tensor's elements in the problem's format: in CPU memory, or on a GPU where `resident` is set. Both are null for no
 * tensor.
 */
struct Operand {
  void* host = nullptr;
  std::shared_ptr<const GpuMemory> resident;
};

struct Operands {
  Operand input;
  Operand residual;
  Operand output;

  /** Nothing has to be copied to a GPU. */
  bool areResident() const { return input.host == nullptr && residual.host == nullptr && output.host == nullptr; }
};

}  // namespace warpconv
