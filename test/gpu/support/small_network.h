#pragma once

#include <random>
#include <string>
#include <vector>

#include "program/program_spec.h"

namespace warpconv::test {

/**
 * A small network of integers for any number of images: two convolutions of 8 maps with a ReLU and a sum around them, a
 * maximum over windows, a mean as a sum, and a matrix product. Its scratch memory is shared by tensors that do not live
 * at once, and its weights by the programs of all batches.
 */
class SmallNetwork {
 public:
  static constexpr int64_t kImage = 8 * 14 * 14, kClasses = 10;

  explicit SmallNetwork(std::mt19937& random);

  /** `algorithm` of both convolutions. The network outlives the program. */
  program::ProgramSpec spec(const std::string& algorithm, int64_t batch = 2) const;

  static std::vector<float> anyInput(std::mt19937& random, int64_t batch = 2);

 private:
  std::vector<std::vector<float>> weights_;
};

}  // namespace warpconv::test
