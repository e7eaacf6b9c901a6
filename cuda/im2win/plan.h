#pragma once

#include "cuda/algorithm.h"
#include "cuda/im2win/gemm_tile.h"
#include "cuda/im2win/model.h"
#include "divide.h"

namespace warpconv::cuda::im2win {

/** Where the elements of windows are read from, and by what. */
enum class Source {
  /** The im2win tensor, one thread an output */
  tensorBasic,
  /** The im2win tensor, by the tiled GEMM */
  tensor,
  /** The input, by the tiled GEMM */
  input,
};

/** What a request comes down to. */
struct Plan {
  Source source = Source::input;
  /** Of kTiles */
  int tile = 0;
  /** Parts of the reduction, each to blocks of its own */
  int splits = 1;
  /** The blocks of a cluster sum them, and not a second kernel */
  bool clustered = false;
  double milliseconds = 0;
};

/** Only for what is not refused. */
Plan planIm2win(const GpuRequest& request);

/** Width of an input row with its padding, from which the im2win tensor is made. */
inline int64_t paddedWidth(const ConvProblem& x) { return x.w + x.padding.left + x.padding.right; }

/** N x C x P x (paddedWidth * R), or as much as saturatedProduct says. */
inline int64_t tensorElements(const ConvProblem& x) { return saturatedProduct({x.n, x.c, x.p, x.r, paddedWidth(x)}); }

/** Workspace: the im2win tensor first, if there is one, then the splits' sums, if a second kernel sums them. */
struct Workspace {
  int64_t tensorBytes, sumBytes;
};
Workspace workspaceOf(const ConvProblem& problem, const Plan& plan);

/** Whether so many splits of a tile are summed within clusters. */
bool sumsInClusters(const GpuTraits& traits, int64_t splits);

/** Steps of a group's reduction, padded to the plan's tile. */
int64_t stepsOf(const ConvProblem& problem, const Plan& plan);

/** Whether filters are rounded beforehand, as products of warpgroups want them. */
bool takesRoundedFilters(const Plan& plan);

/** How a plan takes the filters. */
FilterForm formOf(const ConvProblem& problem, const Plan& plan);

/** Predicted time in milliseconds of the GEMM over one tile and number of splits, the summing of those included. */
double gemmMilliseconds(const GpuRequest& request, const GemmTile& tile, int64_t splits,
                        const Models& models = kModels);

}  // namespace warpconv::cuda::im2win
