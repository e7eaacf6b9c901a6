#pragma once

#include <string>
#include <vector>

namespace warpconv::cuda {

/** A constant of what predicts a kernel's time, by name: bench/gpu/calibrate.ts fits them all to measured times. */
struct ModelConstant {
  std::string name;
  double* value;
};
using ModelConstants = std::vector<ModelConstant>;

}  // namespace warpconv::cuda
