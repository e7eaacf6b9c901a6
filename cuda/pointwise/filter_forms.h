#pragma once

#include <optional>

#include "cuda/planning/filter_form.h"
#include "cuda/pointwise/halves_layout.h"
#include "cuda/pointwise/planner.h"

namespace warpconv::cuda::pointwise {

/**
 * A form in which filters lie several times, one copy after the other (see copiesOf). A form that is there will do, if
 * it has fewer or more copies than are wanted.
 */
struct CopiedForm {
  FilterForm form;
  /** In memory, and those that blocks read */
  int copies = 1, copiesRead = 1;
  /** Of one copy */
  int64_t copyBytes = 0;
};

/** What a candidate's kernel reads of filters. */
struct FilterForms {
  /**
   * [groups][C'][pitch]: what most kernels multiply by. Those of warpgroups' products sum by them again what is not
   * finite, for which they may be rounded as im2win's products of warpgroups want them: larger batches mostly go there,
   * and find the form.
   */
  CopiedForm transposed;
  bool isRounded = false;
  /**
   * For products of warpgroups: [group][tile of filters][step of channels] as the layout has them, with the inverses of
   * scales, which begin after so many bytes, behind all else
   */
  std::optional<CopiedForm> halves;
  HalvesLayout layout{};
  int filterTiles = 0, steps = 0;
  int64_t inversesAt = 0;
};

/** From one channel of transposed filters to the next: a group's filters, padded for 16-byte copies. */
int64_t transposedPitch(const ConvProblem& problem);

FilterForms formsOf(const ConvProblem& problem, const Candidate& candidate, const Weights& weights);

}  // namespace warpconv::cuda::pointwise
