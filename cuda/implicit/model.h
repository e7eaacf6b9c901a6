#pragma once

#include "cuda/implicit/tile.h"

namespace warpconv::cuda::implicit {

/** What the time of a kernel is predicted from, in cycles. */
struct Model {
  /** From a launch to the first stage; and from a block's last product to its outputs, an octet of each thread */
  double begin, octet;
  /** Of a chunk, whoever waits for it; and a multiply-add of a multiprocessor's */
  double chunk, product;
  /** For each doubling of a cluster */
  double cluster;
  /** That a multiprocessor gets of the second cache in a cycle, where all ask */
  double cacheBytes;
  /** Of the rate of a copy */
  double shareOfBandwidth;
};

inline constexpr Model kModel{2200, 60, 100, 1.0 / 1700, 700, 40, 0.85};

}  // namespace warpconv::cuda::implicit
