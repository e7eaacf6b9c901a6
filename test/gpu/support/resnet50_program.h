#pragma once

#include <random>
#include <vector>

#include "program/program_spec.h"

namespace warpconv::test {

/** ResNet-50 with random weights, for any number of images; its batch normalisations are in the biases. */
class ResNet50Program {
 public:
  static constexpr int64_t kImage = 3 * 224 * 224, kClasses = 1000;

  explicit ResNet50Program(std::mt19937& random);

  /** The network outlives the program, and a store that the program is made in. */
  program::ProgramSpec spec(int64_t batch) const;

 private:
  /** Filters and biases of each convolution in turn, then those of the classifier */
  std::vector<std::vector<float>> weights_;
};

}  // namespace warpconv::test
