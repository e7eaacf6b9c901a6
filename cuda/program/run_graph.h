#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cuda/host/graph.h"
#include "cuda/host/waiting.h"
#include "status.h"

namespace warpconv::cuda {

/**
 * A program's launches for one set of ports as one graph, with the copies of inputs and outputs that lie on the GPU,
 * and of small outputs to CPU memory: apart from it, each would take two to four microseconds. One run at a time uses
 * it.
 */
class RunGraph {
 public:
  /** An input or output between runs and their callers. */
  struct Port {
    void* address;
    int64_t bytes;
  };
  struct Ports {
    std::vector<Port> inputs;
    /** None where a run may fail after its launches, and must not have written outputs then */
    std::vector<Port> outputs;
    /** For outputs in CPU memory; null for none */
    char* landing;
    int64_t landingBytes;
  };

  /** What `enqueue` enqueues between the copies; null where that cannot be captured. See Graph::captured. */
  static std::shared_ptr<RunGraph> captured(const Ports& ports, const Enqueue& enqueue, cudaStream_t stream);

  RunGraph(const RunGraph&) = delete;
  RunGraph& operator=(const RunGraph&) = delete;
  ~RunGraph();

  /** Whether a launch copies outputs. */
  bool copiesOutputs() const { return !outputs_.empty(); }
  /** Where a launch is to bring an input from, or an output to, on the GPU; null for none. Before the launch. */
  Status bring(size_t input, const void* from);
  Status handOver(size_t output, void* to);
  /** Has a launch bring an output to where `landed` says, or not. That is null for one which does not fit. */
  Status land(size_t output, bool isWanted);
  const void* landed(size_t output) const { return outputs_[output].landing; }

  Status launch(cudaStream_t stream) const;
  /** Waits for the last launch, copies included. */
  Waited wait(Clock::time_point expected) const { return waitFor(ended_, expected); }

 private:
  /** A copy with one end at a port. Launches do without it unless it is enabled. */
  struct Copy {
    cudaMemcpyKind kind = cudaMemcpyDeviceToDevice;
    cudaGraphNode_t node = nullptr;
    const void* from = nullptr;
    void* to = nullptr;
    int64_t bytes = 0;
    bool isEnabled = true;
  };
  struct Output {
    Copy within, toHost;
    const void* landing = nullptr;
  };

  RunGraph() = default;
  Status enqueueInputs(const Ports& ports, cudaStream_t stream);
  Status enqueueOutputs(const Ports& ports, cudaStream_t stream);
  static Status enqueue(Copy& copy, cudaStream_t stream);
  Status set(Copy& copy, const void* from, void* to);

  std::vector<Copy> inputs_;
  std::vector<Output> outputs_;
  Graph graph_;
  cudaEvent_t ended_ = nullptr;
};

}  // namespace warpconv::cuda
