#pragma once

#include <cstdint>
#include <vector>

#include "problem/conv_problem.h"

namespace warpconv::test {

/** A bottleneck of ResNet-50: what its layers convolve, the first block of a stage with a projection beside them. */
struct Bottleneck {
  ConvProblem reduce, spatial, expand;
  std::vector<ConvProblem> projection;
};

struct ResNet50 {
  ConvProblem stem;
  std::vector<Bottleneck> blocks;

  std::vector<ConvProblem> convolutions() const;
};

/** Of `batch` images of 224 x 224 */
ResNet50 resNet50(int64_t batch);

}  // namespace warpconv::test
