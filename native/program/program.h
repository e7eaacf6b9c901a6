#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "executor/cancellation.h"
#include "memory/host_bytes.h"
#include "planner/planner.h"
#include "program/steps.h"
#include "status.h"

namespace warpconv {
class GpuMemory;
}

namespace warpconv::program {

/** A compiled network for inputs of fixed extents. */
struct ProgramSpec {
  /** In the order in which they run */
  std::vector<Step> steps;
  /** In CPU memory, on boundaries of their elements; the caller keeps them as long as the program */
  std::vector<const void*> constants;
  /** Those that the caller keeps, and leaves as they are, as long as the store, so that programs share what is made of them */
  std::vector<bool> sharedConstants;
  /** Bytes of each constant, input and output */
  std::vector<int64_t> constantBytes, inputBytes, outputBytes;
  /** Scratch memory of one run */
  int64_t arenaBytes = 0;
};

/** One run's tensors: dense, of the extents that the program was compiled for. In CPU memory, unless said otherwise. */
struct Tensors {
  std::span<const void* const> inputs;
  std::span<void* const> outputs;
  /** On a GPU: empty, or one for each input, which lies there unless it is null */
  std::span<const std::shared_ptr<const GpuMemory>> residentInputs = {};
  /** Empty, or for each input the pieces that follow each other in it, where it is null and does not lie on a GPU */
  std::span<const std::vector<HostBytes>> inputParts = {};
};

/** A program with its weights where its device wants them. Immutable but for spare scratch memory: runs may overlap. */
class PreparedProgram {
 public:
  virtual ~PreparedProgram() = default;
  /**
   * Blocks until the outputs are complete; `aborted` when asked to stop, which it looks for between steps at the
   * latest. Unless null, `milliseconds` gets what each step took.
   */
  virtual Status run(const Tensors& tensors, const Cancellation* cancellation,
                     std::vector<double>* milliseconds) const = 0;
  /** For each step the algorithm that was chosen, with an empty name where there is no choice */
  virtual const std::vector<Candidate>& choices() const = 0;
  /** Memory held besides what is in the store */
  virtual int64_t bytes() const = 0;
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
