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

  /** The node that what is captured next on a stream comes after: the last one, where it was a copy. */
  static Result<cudaGraphNode_t> lastNode(cudaStream_t stream);
  /** Has launches from now on copy that, by a node of one that was captured. */
  Status setCopy(cudaGraphNode_t node, const void* from, void* to, int64_t bytes, cudaMemcpyKind kind);
  /** Whether launches from now on do what a node is for, which is enabled at first. */
  Status enable(cudaGraphNode_t node, bool isEnabled);

 private:
  struct Destroy {
    void operator()(cudaGraph_t graph) const;
    void operator()(cudaGraphExec_t graph) const;
  };
  using Made = std::unique_ptr<std::remove_pointer_t<cudaGraph_t>, Destroy>;
  using Executable = std::unique_ptr<std::remove_pointer_t<cudaGraphExec_t>, Destroy>;

  /** Has the nodes */
  Made made_;
  Executable executable_;
};

}  // namespace warpconv::cuda
