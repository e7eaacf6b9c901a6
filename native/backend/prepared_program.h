#pragma once

#include <cstdint>
#include <vector>

#include "backend/answer.h"
#include "executor/cancellation.h"
#include "program/run_memory.h"
#include "status.h"

namespace warpconv::program {

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

}  // namespace warpconv::program
