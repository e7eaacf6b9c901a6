#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "memory/gpu_memory.h"
#include "memory/host_bytes.h"
#include "program/steps.h"

namespace warpconv::program {

/** One run's tensors: dense, of the extents that the program was compiled for. In CPU memory, unless said otherwise. */
struct Tensors {
  std::span<const void* const> inputs;
  /** On a GPU null for those that nobody asked for */
  std::span<void* const> outputs;
  /** On a GPU: empty, or one for each input, which lies there unless it is null */
  std::span<const std::shared_ptr<const GpuMemory>> residentInputs = {};
  /** Empty, or for each input the pieces that follow each other in it, where it is null and does not lie on a GPU */
  std::span<const std::vector<HostBytes>> inputParts = {};
  /** On a GPU: empty, or one for each output, which is wanted there unless it is null; no two are the same memory */
  std::span<const std::shared_ptr<const GpuMemory>> residentOutputs = {};
};

/** The memory of a run, by which buffers become addresses. */
class Memory {
 public:
  Memory(const Tensors& tensors, std::span<const void* const> constants, void* arena)
      : tensors_(tensors), constants_(constants), arena_(arena) {}

  /** Null for a buffer that is not given */
  template <typename T = float>
  const T* read(const Buffer& buffer) const {
    return static_cast<const T*>(address(buffer));
  }
  template <typename T = float>
  T* write(const Buffer& buffer) const {
    return const_cast<T*>(static_cast<const T*>(address(buffer)));
  }

 private:
  const void* address(const Buffer& buffer) const {
    const void* base = baseOf(buffer);
    return base == nullptr ? nullptr : static_cast<const std::byte*>(base) + buffer.offset;
  }
  const void* baseOf(const Buffer& buffer) const {
    switch (buffer.space) {
      case Buffer::Space::none: return nullptr;
      case Buffer::Space::input: return tensors_.inputs[buffer.index];
      case Buffer::Space::output: return tensors_.outputs[buffer.index];
      case Buffer::Space::constant: return constants_[buffer.index];
      case Buffer::Space::arena: return arena_;
    }
    return nullptr;
  }

  const Tensors tensors_;
  const std::span<const void* const> constants_;
  void* const arena_;
};

}  // namespace warpconv::program
