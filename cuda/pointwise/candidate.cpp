#include "cuda/pointwise/candidate.h"

#include <type_traits>

#include "cuda/pointwise/variants.h"

namespace warpconv::cuda::pointwise {

std::string Candidate::name() const {
  if (paper.channels > 0) return std::string(nameOf(paper).view());
  const auto name = [&]<typename Tile>(const Tile& own) -> std::string {
    if constexpr (requires { own.sizes(); }) return std::string(nameOf(own, split).view());
    return {};
  };
  return std::visit(name, tile);
}

std::string Candidate::lost() const {
  switch (loss) {
    case Loss::none: return {};
    case Loss::halfOfLanes: return "leaves half of the lanes without an element";
    case Loss::noKernel: return "no kernel holds " + std::to_string(limit) + " elements a thread";
    case Loss::registers:
      return "needs " + std::to_string(registers) + " registers a thread where " + std::to_string(limit) + " are free";
    case Loss::sharedBytes:
      return "needs " + std::to_string(sharedBytes) + " bytes of shared memory a block where " + std::to_string(limit) +
             " are free";
    case Loss::lowerIntensity: return "has a lower arithmetic intensity";
    case Loss::moreBlocks: return "needs more blocks";
    case Loss::slowerOfPaper: return "is as good by both metrics but slower";
    case Loss::slower: return "is predicted slower";
  }
  return {};
}

}  // namespace warpconv::cuda::pointwise
