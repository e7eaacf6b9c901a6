#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "status.h"

namespace warpconv::cuda {

/**
 * A closed gate holds back what is enqueued behind it, until it is opened or a millisecond has passed. Timed work then
 * begins once all of it has been launched, however slow the processor is.
 */
class StreamGate {
 public:
  StreamGate() = default;
  StreamGate(const StreamGate&) = delete;
  StreamGate& operator=(const StreamGate&) = delete;
  /** The stream must have passed the gate. */
  ~StreamGate();

  /** Allocates; once, before all else. */
  Status prepare();
  Status close(cudaStream_t stream);
  void open();

 private:
  /** In page-locked memory: gates up to this number are open. */
  uint32_t* opened_ = nullptr;
  uint32_t turn_ = 0;
};

}  // namespace warpconv::cuda
