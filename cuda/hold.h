#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "status.h"

namespace warpconv::cuda {

/**
 * Keeps a stream from what is enqueued behind it, until it is released or a millisecond has passed: what is timed then
 * begins when all of it has been launched, however long that takes a slow processor.
 */
class Hold {
 public:
  Hold() = default;
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;
  /** Not before the stream has gone on. */
  ~Hold();

  Status open();
  Status begin(cudaStream_t stream);
  void release();

 private:
  /** In page-locked memory: holds up to this number are released. */
  uint32_t* released_ = nullptr;
  uint32_t turn_ = 0;
};

}  // namespace warpconv::cuda
