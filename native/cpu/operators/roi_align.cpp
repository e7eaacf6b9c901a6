#include <algorithm>

#include "cpu/operators/cpu_operators.h"
#include "cpu/operators/first_wrong.h"
#include "cpu/operators/ranges.h"
#include "program/indices.h"
#include "typed/elements.h"
#include "typed/regions.h"
#include "typed/work.h"

namespace warpconv::operators {
namespace {

/** About what one element of the output takes: adaptive bins of a region as large as the map read all of it. */
int64_t workOf(const RoiAlignStep& x) {
  const int64_t samples = std::min(x.samples, kGrainElements);
  return 16 * (samples > 0 ? samples * samples : std::max<int64_t>(1, x.h * x.w / (x.p * x.q)));
}

}  // namespace

Status roiAlign(const RoiAlignStep& step, const int64_t* images, const void* boxes, const void* input, void* output,
                const RunContext& context) {
  FirstWrong wrong;
  const int64_t bins = step.channels * step.p * step.q, stride = 1;
  const auto compute = [&](auto like) {
    using C = decltype(like);
    forEachRange(context, step.regions * bins, workOf(step), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t region = i / bins;
        const int64_t image = typed::placeOfIndices(images + region, 1, &step.n, &stride);
        if (image < 0) {
          wrong.note(region);
        } else {
          const auto* const box = static_cast<const C*>(boxes) + 4 * region;
          static_cast<C*>(output)[i] =
              typed::alignedBin<C>(step, static_cast<const C*>(input), box, image, i - region * bins);
        }
      }
    });
  };
  step.type == ElementType::float64 ? compute(double{}) : compute(float{});
  if (wrong.isFound()) return wrongIndex(wrong.place(), images[wrong.place()], step.n);
  return context.isCancelled() ? stoppedWhileRunning() : Status{};
}

}  // namespace warpconv::operators
