#pragma once

#include <string>

namespace warpconv {

/** One algorithm's time. */
struct Measurement {
  std::string algorithm;
  std::string variant;
  /** The median of a call */
  double milliseconds = 0;
};

}  // namespace warpconv
