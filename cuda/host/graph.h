#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <memory>
#include <type_traits>

#include "status.h"

namespace warpconv::cuda {

/** Enqueues work on the stream that it was made for. */
using Enqueue = std::function<Status()>;

/** Work that was captured once, addresses included, and is launched as a whole. */
class Graph {
 public:
  /** None. */
  Graph() = default;

  /**
   * What `enqueue` enqueues on `stream`, without running it, or none where something of it cannot be captured. It must
   * have run before: what a first run loads cannot be captured. Nobody else may use the stream meanwhile.
   */
  static Graph captured(const Enqueue& enqueue, cudaStream_t stream);

  bool isGiven() const { return executable_ != nullptr; }
  /** Brings it to the device, which the first launch would do otherwise. */
  Status upload(cudaStream_t stream) const;
  Status launch(cudaStream_t stream) const;

 private:
  struct Destroy {
    void operator()(cudaGraphExec_t graph) const;
  };

  explicit Graph(cudaGraphExec_t executable) : executable_(executable) {}

  std::unique_ptr<std::remove_pointer_t<cudaGraphExec_t>, Destroy> executable_;
};

}  // namespace warpconv::cuda
