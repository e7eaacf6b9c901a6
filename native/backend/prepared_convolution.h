#pragma once

#include <cstdint>
#include <functional>

#include "backend/operands.h"
#include "executor/cancellation.h"
#include "status.h"

namespace warpconv {

/** A convolution with its weights where its device wants them. Immutable, so calls may overlap. */
class PreparedConvolution {
 public:
  virtual ~PreparedConvolution() = default;
  /** Blocks until the output is complete; `aborted` when asked to stop, the output then unfinished. */
  virtual Status run(const Operands& operands, const Cancellation* cancellation) const = 0;
  /** Whether `enqueue` takes these operands. */
  virtual bool canEnqueue(const Operands& operands) const = 0;
  /**
   * Starts the call without blocking or allocating. `done` is called once, on any thread, when the output is complete
   * or the call has failed; not where this fails itself. The caller keeps the operands and this until then.
   */
  virtual Status enqueue(const Operands& operands, std::function<void(Status)> done) const = 0;
  /** Memory held: packed weights, biases and, on a GPU, scratch memory. */
  virtual int64_t bytes() const = 0;
};

}  // namespace warpconv
