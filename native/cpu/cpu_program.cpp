#include "cpu/cpu_program.h"

#include <chrono>
#include <cstring>
#include <functional>
#include <span>
#include <utility>

#include "cpu/algorithm/range.h"
#include "cpu/cpu_backend.h"
#include "cpu/operators/cpu_operators.h"
#include "cpu/operators/halves.h"
#include "cpu/vector/prefetch.h"
#include "devices/cpu_info.h"
#include "divide.h"
#include "planner/choose.h"
#include "planner/known_candidates.h"

namespace warpconv {
namespace {

using namespace program;

using Action = std::function<Status(const Memory&, const RunContext&)>;

/** For a step whose function cannot fail. */
template <typename Function>
Action infallible(Function function) {
  return [function = std::move(function)](const Memory& memory, const RunContext& context) {
    function(memory, context);
    return context.isCancelled() ? stoppedWhileRunning() : Status{};
  };
}

Action toAction(const MatmulStep& x) {
  return infallible([x](const Memory& m, const RunContext& context) {
    operators::matmul(x, m.read(x.left), m.read(x.right), m.read(x.bias), m.write(x.output), context);
  });
}

Action toAction(const ElementwiseStep& x) {
  if (!x.isPlain()) {
    return infallible([x](const Memory& m, const RunContext& context) {
      std::array<const void*, ElementwiseStep::kMostOperands> operands{};
      for (size_t i = 0; i < x.operands.size(); ++i) operands[i] = m.read<void>(x.operands[i]);
      operators::halves::elementwise(x, std::span(operands.data(), x.operands.size()), m.write<void>(x.output),
                                     context);
    });
  }
  return infallible([x](const Memory& m, const RunContext& context) {
    std::array<const float*, ElementwiseStep::kMostOperands> operands{};
    for (size_t i = 0; i < x.operands.size(); ++i) operands[i] = m.read(x.operands[i]);
    operators::elementwise(x, std::span(operands.data(), x.operands.size()), m.write(x.output), context);
  });
}

Action toAction(const PoolStep& x) {
  return infallible([x](const Memory& m, const RunContext& context) {
    if (x.isPlain()) return operators::pool(x, m.read(x.input), m.write(x.output), context);
    operators::halves::pool(x, m.read<void>(x.input), m.write<void>(x.output), context);
  });
}

Action toAction(const ReduceStep& x) {
  return infallible([x](const Memory& m, const RunContext& context) {
    if (x.isPlain()) return operators::reduce(x, m.read(x.input), m.write<void>(x.output), context);
    operators::halves::reduce(x, m.read<void>(x.input), m.write<void>(x.output), context);
  });
}

Action toAction(const SoftmaxStep& x) {
  return infallible([x](const Memory& m, const RunContext& context) {
    operators::softmax(x, m.read(x.input), m.write(x.output), context);
  });
}

Action toAction(const NormalizeStep& x) {
  return infallible([x](const Memory& m, const RunContext& context) {
    const float *const scale = m.read(x.scale), *const shift = m.read(x.shift);
    if (x.type == FloatType::float32) {
      return operators::normalize(x, scale, shift, m.read(x.input), m.write(x.output), context);
    }
    operators::halves::normalize(x, scale, shift, m.read<void>(x.input), m.write<void>(x.output), context);
  });
}

Action toAction(const LocalResponseStep& x) {
  return infallible([x](const Memory& m, const RunContext& context) {
    operators::localResponse(x, m.read(x.input), m.write(x.output), context);
  });
}

Action toAction(const SqueezeExciteStep& x) {
  return infallible([x](const Memory& m, const RunContext& context) {
    operators::halves::squeezeExcite(x, m.read<void>(x.input), m.read(x.hiddenWeight), m.read(x.hiddenBias),
                                     m.read(x.gateWeight), m.read(x.gateBias), m.write<void>(x.output), context);
  });
}

Action toAction(const CopyStep& x) {
  return infallible([x](const Memory& m, const RunContext& context) {
    operators::copy(x, m.read<void>(x.input), m.write<void>(x.output), context);
  });
}

Action toAction(const FillStep& x) {
  return infallible([x](const Memory& m, const RunContext&) { operators::fill(x, m.write(x.output)); });
}

Action toAction(const GatherStep& x) {
  return [x](const Memory& m, const RunContext& context) {
    return operators::gather(x, m.read<int64_t>(x.indices), m.read<void>(x.input), m.write<void>(x.output), context);
  };
}

Action toAction(const InterpolateStep& x) {
  return infallible([x](const Memory& m, const RunContext& context) {
    if (x.type == FloatType::float32) {
      return operators::interpolate(x, m.read(x.input), m.write(x.output), context);
    }
    operators::halves::interpolate(x, m.read<void>(x.input), m.write<void>(x.output), context);
  });
}

Action toAction(const FormatStep& x) {
  return infallible([x](const Memory& m, const RunContext& context) {
    operators::halves::format(x, m.read<void>(x.input), m.write<void>(x.output), context);
  });
}

Action toAction(const MapStep& x) {
  return infallible([x](const Memory& m, const RunContext& context) {
    std::array<const void*, MapStep::kMostOperands> operands{};
    for (size_t i = 0; i < x.operands.size(); ++i) operands[i] = m.read<void>(x.operands[i]);
    operators::map(x, std::span(operands.data(), x.operands.size()), m.write<void>(x.output), context);
  });
}

Action toAction(const IndexedStep& x) {
  return [x](const Memory& m, const RunContext& context) {
    return operators::indexed(x, m.read<int64_t>(x.indices), m.read<void>(x.input), m.write<void>(x.output), context);
  };
}

Action toAction(const RoiAlignStep& x) {
  return [x](const Memory& m, const RunContext& context) {
    return operators::roiAlign(x, m.read<int64_t>(x.images), m.read<void>(x.boxes), m.read<void>(x.input),
                               m.write<void>(x.output), context);
  };
}

Action toAction(const SortStep& x) {
  return infallible([x](const Memory& m, const RunContext& context) {
    operators::sort(x, m.read<void>(x.input), m.write<int64_t>(x.output), context);
  });
}

Action toAction(const ScanStep& x) {
  return infallible([x](const Memory& m, const RunContext& context) {
    operators::scan(x, m.read<void>(x.input), m.write<void>(x.output), context);
  });
}

Action toAction(const TypedReduceStep& x) {
  return infallible([x](const Memory& m, const RunContext& context) {
    operators::typedReduce(x, m.read<void>(x.input), m.write<void>(x.output), context);
  });
}

Action toAction(const RecurrentStep& x) {
  return infallible([x](const Memory& m, const RunContext& context) {
    const operators::RecurrentTensors tensors{
        m.read(x.gates),         m.read(x.recurrent),   m.read(x.productBias),      m.read(x.peepholes),
        m.read(x.initialHidden), m.read(x.initialCell), m.read<int32_t>(x.lengths), m.write(x.output)};
    operators::recurrent(x, tensors, context);
  });
}

Action toAction(const TypedMatmulStep& x) {
  return infallible([x](const Memory& m, const RunContext& context) {
    operators::typedMatmul(x, m.read<void>(x.left), m.read<void>(x.right), m.write<void>(x.output), context);
  });
}

Action toAction(const ConvolutionStep& x, std::shared_ptr<const PreparedConvolution> prepared) {
  return [x, prepared = std::move(prepared)](const Memory& m, const RunContext& context) {
    // An operand's address is not const, since one struct serves inputs and outputs; inputs are only read.
    Operands operands;
    operands.input.host = m.write<void>(x.input);
    operands.residual.host = m.write<void>(x.residual);
    operands.output.host = m.write<void>(x.output);
    return prepared->run(operands, context.cancellation);
  };
}

/** A run's scratch memory, which goes back to where it came from. */
class ArenaLease {
 public:
  ArenaLease(Arenas& arenas, int64_t elements) : arenas_(arenas), arena_(arenas.take(elements)) {}
  ArenaLease(const ArenaLease&) = delete;
  ArenaLease& operator=(const ArenaLease&) = delete;
  ~ArenaLease() { arenas_.giveBack(std::move(arena_)); }
  float* data() { return arena_.data(); }

 private:
  Arenas& arenas_;
  AlignedBuffer arena_;
};

/** A line of the caches, where all pieces of the arena begin */
constexpr int64_t kAlignedElements = 16;

class CpuProgram final : public PreparedProgram {
 public:
  CpuProgram(ProgramSpec spec, const CpuBackend& backend, std::shared_ptr<CpuStore> store, Executor& executor)
      : backend_(backend),
        executor_(executor),
        store_(std::move(store)),
        constants_(std::move(spec.constants)),
        sharedConstants_(std::move(spec.sharedConstants)),
        inputBytes_(std::move(spec.inputBytes)),
        arenaElements_((spec.arenaBytes + 3) / 4) {}

  Status add(const Step& step, KnownCandidates& known) {
    return std::visit([&](const auto& kind) { return addKind(kind, known); }, step);
  }

  Status run(const Tensors& tensors, const Cancellation* cancellation,
             std::vector<double>* milliseconds) const override {
    const int64_t arenaElements = roundUp(arenaElements_, kAlignedElements);
    ArenaLease arena(store_->arenas(), arenaElements + joinedElements(tensors));
    std::vector<const void*> inputs(tensors.inputs.begin(), tensors.inputs.end());
    const RunContext context{&executor_, cancellation, backend_.isa()};
    joinParts(tensors, inputs, arena.data() + arenaElements, context);
    return runIn(arena.data(), {inputs, tensors.outputs}, context, milliseconds);
  }

  const std::vector<Candidate>& choices() const override { return choices_; }
  int64_t bytes() const override { return ownBytes_; }

 private:
  template <typename Kind>
  Status addKind(const Kind& step, KnownCandidates&) {
    actions_.push_back(toAction(step));
    choices_.emplace_back();
    return {};
  }

  Status addKind(const ConvolutionStep& step, KnownCandidates& known) {
    const PlanProblem asked{step.problem, step.activation, step.request};
    const std::vector<Candidate>& candidates = known.of(asked);
    const Result<size_t> fastest = choose(candidates, asked.request, backend_.device());
    if (!fastest.isOk()) return fastest.status();
    if (!isConstant(step.weight) || !isConstant(step.bias)) {
      const Candidate& choice = candidates[fastest.value()];
      actions_.push_back(preparingAnew(step, choice.algorithm));
      choices_.push_back(choice);
      return {};
    }
    const std::shared_ptr<Weights> weights = weightsOf(step);
    const size_t chosen = preferPacked(candidates, fastest.value(), asked.request, [&](const Candidate& candidate) {
      return backend_.isPacked(candidate.algorithm, asked, *weights);
    });
    const Candidate& choice = candidates[chosen];
    const auto* const bias = Memory({}, constants_, nullptr).read(step.bias);
    auto prepared = backend_.prepare(choice.algorithm, asked, *weights, bias);
    if (!prepared.isOk()) return prepared.status();
    ownBytes_ += prepared.value()->bytes();
    if (!isShared(step)) ownBytes_ += weights->bytes();
    actions_.push_back(toAction(step, std::move(prepared.value())));
    choices_.push_back(choice);
    return {};
  }

  static bool isConstant(const Buffer& buffer) { return buffer.space == Buffer::Space::constant || !buffer.isGiven(); }

  bool isShared(const ConvolutionStep& step) const {
    const auto index = static_cast<size_t>(step.weight.index);
    return index < sharedConstants_.size() && sharedConstants_[index];
  }

  std::shared_ptr<Weights> weightsOf(const ConvolutionStep& step) const {
    const Memory constants({}, constants_, nullptr);
    const float* const filters = constants.read(step.weight);
    const float* const scale = constants.read(step.scale);
    const auto count = static_cast<size_t>(scale == nullptr ? 0 : step.problem.k);
    const std::span<const float> factors(scale, count);
    if (isShared(step)) return store_->weights().of(filters, step.problem.k, step.problem.filterSize(), factors);
    return std::make_shared<Weights>(filters, step.problem.k, step.problem.filterSize(),
                                     std::vector<float>(factors.begin(), factors.end()));
  }

  /** For weights that each run brings or computes. */
  Action preparingAnew(const ConvolutionStep& step, const std::string& algorithm) {
    return [this, step, algorithm](const Memory& m, const RunContext& context) {
      const PlanProblem asked{step.problem, step.activation, step.request};
      Weights weights(m.read(step.weight), step.problem.k, step.problem.filterSize());
      auto prepared = backend_.prepare(algorithm, asked, weights, m.read(step.bias));
      if (!prepared.isOk()) return prepared.status();
      return toAction(step, std::move(prepared.value()))(m, context);
    };
  }

  /** Of inputs that come in pieces, which are put together behind the arena */
  int64_t joinedElements(const Tensors& tensors) const {
    int64_t elements = 0;
    for (size_t i = 0; i < tensors.inputParts.size(); ++i) {
      if (!tensors.inputParts[i].empty()) elements += alignedElements(inputBytes_[i]);
    }
    return elements;
  }

  static int64_t alignedElements(int64_t bytes) {
    return roundUp(bytes, kAlignedElements * static_cast<int64_t>(sizeof(float))) / static_cast<int64_t>(sizeof(float));
  }

  /** Puts the pieces of inputs together in `joined`, and fills in where. */
  void joinParts(const Tensors& tensors, std::vector<const void*>& inputs, float* joined,
                 const RunContext& context) const {
    for (size_t i = 0; i < tensors.inputParts.size(); ++i) {
      const std::vector<HostBytes>& parts = tensors.inputParts[i];
      if (parts.empty()) continue;
      inputs[i] = joined;
      std::vector<int64_t> offsets{0};
      for (const HostBytes& part : parts) offsets.push_back(offsets.back() + part.bytes);
      const auto count = static_cast<int64_t>(parts.size());
      const int64_t shares = inputBytes_[i] < kLeastShared ? 1 : count;
      context.parallelFor(shares, [&](int64_t share) {
        const Range range = slice(count, share, shares);
        for (auto part = static_cast<size_t>(range.begin); part < static_cast<size_t>(range.end); ++part) {
          std::memcpy(reinterpret_cast<char*>(joined) + offsets[part], parts[part].data,
                      static_cast<size_t>(parts[part].bytes));
        }
      });
      joined += alignedElements(inputBytes_[i]);
    }
  }

  Status runIn(void* arena, const Tensors& tensors, const RunContext& context,
               std::vector<double>* milliseconds) const {
    const Memory memory(tensors, constants_, arena);
    auto start = std::chrono::steady_clock::now();
    readInputs(tensors, context);
    for (const Action& action : actions_) {
      if (context.isCancelled()) return stoppedWhileRunning();
      const Status status = action(memory, context);
      if (!status.isOk()) return status;
      if (milliseconds == nullptr) continue;
      const auto end = std::chrono::steady_clock::now();
      milliseconds->push_back(std::chrono::duration<double, std::milli>(end - start).count());
      start = end;
    }
    return {};
  }

  /**
   * A network's input has left the caches since somebody wrote it, and the windows of its first convolution would wait
   * for one line after the other. On a core of Zen 4, 3 to 32 channels of 224 x 224 at stride 2 with the input in
   * memory: 0.34 ms instead of 0.48; it is 0.32 with the input in the cache. Each thread reads the part that it begins
   * its share of the convolution with: 600 KB take 45 to 80 us.
   */
  void readInputs(const Tensors& tensors, const RunContext& context) const {
    for (size_t i = 0; i < inputBytes_.size(); ++i) {
      if (inputBytes_[i] > cpuInfo().caches.l2) continue;
      const int64_t parts = inputBytes_[i] < kLeastShared ? 1 : context.threads();
      const auto* first = static_cast<const char*>(tensors.inputs[i]);
      context.parallelFor(parts, [&](int64_t part) {
        const Range bytes = slice(inputBytes_[i], part, parts);
        readThrough(first + bytes.begin, bytes.size());
      });
    }
  }

  /** Bytes of an input from which on reading it takes longer than telling other threads to take a share of that. */
  static constexpr int64_t kLeastShared = 1 << 17;

  CpuBackend backend_;
  Executor& executor_;
  const std::shared_ptr<CpuStore> store_;
  const std::vector<const void*> constants_;
  const std::vector<bool> sharedConstants_;
  const std::vector<int64_t> inputBytes_;
  const int64_t arenaElements_;
  std::vector<Action> actions_;
  std::vector<Candidate> choices_;
  int64_t ownBytes_ = 0;
};

}  // namespace

Result<std::shared_ptr<const PreparedProgram>> prepareCpuProgram(ProgramSpec spec, const CpuBackend& backend,
                                                                 std::shared_ptr<CpuStore> store, Executor& executor) {
  const std::vector<Step> steps = std::move(spec.steps);
  auto made = std::make_shared<CpuProgram>(std::move(spec), backend, std::move(store), executor);
  KnownCandidates known(backend);
  for (const Step& step : steps) {
    const Status status = made->add(step, known);
    if (!status.isOk()) return status;
    executor.yield();
  }
  return std::shared_ptr<const PreparedProgram>(std::move(made));
}

}  // namespace warpconv
