#pragma once

#include <memory>
#include <utility>

#include "backend/program_store.h"
#include "cuda/host/background.h"
#include "cuda/host/queue.h"
#include "cuda/host/tables.h"
#include "cuda/program/constants.h"
#include "cuda/program/landings.h"
#include "cuda/program/scratch.h"
#include "weights/weights.h"

namespace warpconv::cuda {

/** What the programs of a network share on the device of a queue, on which all of them run. */
class GpuStore final : public program::Store {
 public:
  GpuStore(std::shared_ptr<Queue> on, std::shared_ptr<Background> thread)
      : queue(std::move(on)),
        background(std::move(thread)),
        scratch(queue->device()),
        constants(*queue),
        tables(*queue) {}

  int64_t bytes() const override { return scratch.bytes() + constants.bytes() + tables.bytes() + weights.bytes(); }
  int64_t scratchBytes() const override { return scratch.bytes(); }
  void trim() override {
    scratch.trim();
    constants.trim();
    weights.trim();
  }

  const std::shared_ptr<Queue> queue;
  /** For what no run should wait for */
  const std::shared_ptr<Background> background;
  Scratch scratch;
  Landings landings;
  Constants constants;
  Tables tables;
  WeightStore weights;
};

}  // namespace warpconv::cuda
