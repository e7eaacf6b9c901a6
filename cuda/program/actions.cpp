#include "cuda/program/actions.h"

#include <array>
#include <span>

#include "cuda/formats/convert.h"

namespace warpconv::cuda {

using namespace program;

Action toAction(const ElementwiseStep& x) {
  if (!x.isPlain()) {
    return [x](const Site& site, cudaStream_t stream) {
      std::array<const void*, ElementwiseStep::kMostOperands> operands{};
      for (size_t i = 0; i < x.operands.size(); ++i) operands[i] = site.memory.read<void>(x.operands[i]);
      return operators::elementwiseHalves(x, std::span(operands.data(), x.operands.size()),
                                          site.memory.write<void>(x.output), stream);
    };
  }
  return [x](const Site& site, cudaStream_t stream) {
    std::array<const float*, ElementwiseStep::kMostOperands> operands{};
    for (size_t i = 0; i < x.operands.size(); ++i) operands[i] = site.memory.read(x.operands[i]);
    return operators::elementwise(x, std::span(operands.data(), x.operands.size()), site.memory.write(x.output),
                                  stream);
  };
}

Action toAction(const PoolStep& x) {
  return [x](const Site& site, cudaStream_t stream) {
    const Memory& m = site.memory;
    return x.isPlain() ? operators::pool(x, m.read(x.input), m.write(x.output), stream)
                       : operators::poolHalves(x, m.read<void>(x.input), m.write<void>(x.output), stream);
  };
}

Action toAction(const ReduceStep& x) {
  return [x](const Site& site, cudaStream_t stream) {
    const Memory& m = site.memory;
    return x.isPlain() ? operators::reduce(x, m.read(x.input), m.write<void>(x.output), stream)
                       : operators::reduceHalves(x, m.read<void>(x.input), m.write(x.output), stream);
  };
}

Action toAction(const SoftmaxStep& x) {
  return [x](const Site& site, cudaStream_t stream) {
    return operators::softmax(x, site.memory.read(x.input), site.memory.write(x.output), stream);
  };
}

Action toAction(const NormalizeStep& x) {
  return [x](const Site& site, cudaStream_t stream) {
    const Memory& m = site.memory;
    const float *const scale = m.read(x.scale), *const shift = m.read(x.shift);
    return x.type == FloatType::float32
               ? operators::normalize(x, scale, shift, m.read(x.input), m.write(x.output), stream)
               : operators::normalizeHalves(x, scale, shift, m.read<void>(x.input), m.write<void>(x.output), stream);
  };
}

Action toAction(const LocalResponseStep& x) {
  return [x](const Site& site, cudaStream_t stream) {
    return operators::localResponse(x, site.memory.read(x.input), site.memory.write(x.output), stream);
  };
}

Action toAction(const SqueezeExciteStep& x) {
  return [x](const Site& site, cudaStream_t stream) {
    const Memory& m = site.memory;
    const operators::Gates gates{m.read(x.hiddenWeight), m.read(x.hiddenBias), m.read(x.gateWeight),
                                 m.read(x.gateBias)};
    return operators::squeezeExcite(x, gates, m.read<void>(x.input), m.write<void>(x.output), stream);
  };
}

Action toAction(const CopyStep& x) {
  return [x](const Site& site, cudaStream_t stream) {
    return operators::copy(x, site.memory.read<void>(x.input), site.memory.write<void>(x.output), stream);
  };
}

Action toAction(const FormatStep& x) {
  return [x](const Site& site, cudaStream_t stream) {
    return convertFormat({x.n, x.channels, x.area}, x.from, site.memory.read<void>(x.input), x.to,
                         site.memory.write<void>(x.output), stream);
  };
}

Action toAction(const FillStep& x) {
  return [x](const Site& site, cudaStream_t stream) { return operators::fill(x, site.memory.write(x.output), stream); };
}

Action toAction(const MapStep& x) {
  return [x](const Site& site, cudaStream_t stream) {
    std::array<const void*, MapStep::kMostOperands> operands{};
    for (size_t i = 0; i < x.operands.size(); ++i) operands[i] = site.memory.read<void>(x.operands[i]);
    return operators::map(x, std::span(operands.data(), x.operands.size()), site.memory.write<void>(x.output), stream);
  };
}

Action toAction(const SortStep& x) {
  return [x](const Site& site, cudaStream_t stream) {
    return operators::sort(x, site.memory.read<void>(x.input), site.memory.write<int64_t>(x.output), stream);
  };
}

Action toAction(const ScanStep& x) {
  return [x](const Site& site, cudaStream_t stream) {
    return operators::scan(x, site.memory.read<void>(x.input), site.memory.write<void>(x.output), stream);
  };
}

Action toAction(const TypedReduceStep& x) {
  return [x](const Site& site, cudaStream_t stream) {
    return operators::typedReduce(x, site.memory.read<void>(x.input), site.memory.write<void>(x.output), stream);
  };
}

Action toAction(const TypedMatmulStep& x) {
  return [x](const Site& site, cudaStream_t stream) {
    const Memory& m = site.memory;
    return operators::typedMatmul(x, m.read<void>(x.left), m.read<void>(x.right), m.write<void>(x.output), stream);
  };
}

Status enqueueIndexed(const GatherStep& x, const Site& site, cudaStream_t stream) {
  const Memory& m = site.memory;
  return operators::gather(x, m.read<int64_t>(x.indices), m.read<void>(x.input), m.write<void>(x.output), stream);
}

Status enqueueIndexed(const IndexedStep& x, const Site& site, cudaStream_t stream) {
  const Memory& m = site.memory;
  return operators::indexed(x, m.read<int64_t>(x.indices), m.read<void>(x.input), m.write<void>(x.output), stream);
}

Status enqueueIndexed(const RoiAlignStep& x, const Site& site, cudaStream_t stream) {
  const Memory& m = site.memory;
  return operators::roiAlign(x, m.read<int64_t>(x.images), m.read<void>(x.boxes), m.read<void>(x.input),
                             m.write<void>(x.output), stream);
}

}  // namespace warpconv::cuda
