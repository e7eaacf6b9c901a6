#pragma once

#include <vector>

#include "status.h"

typedef struct CUstream_st* cudaStream_t;
typedef struct CUevent_st* cudaEvent_t;

namespace warpconv::cuda {

/** Points in the work of a stream, and the time from each to the next. */
class StreamTimer {
 public:
  StreamTimer() = default;
  StreamTimer(const StreamTimer&) = delete;
  StreamTimer& operator=(const StreamTimer&) = delete;
  ~StreamTimer();

  /** Behind all that is enqueued so far. */
  Status mark(cudaStream_t stream);
  /** Milliseconds on the device, one fewer than marks. Waits for the last of them. */
  Result<std::vector<double>> times() const;

 private:
  std::vector<cudaEvent_t> events_;
};

}  // namespace warpconv::cuda
