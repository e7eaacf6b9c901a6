#pragma once

#include <optional>

namespace warpconv::sconv {

/** How the micro-kernel finds the elements of a tile's windows. */
enum class Presentation {
  /** In the input itself: nothing is copied */
  asTheyLie,
  /** Packed window by window, each element as often as a window has it (SConv, section 6.1) */
  packed,
};

/** Which tiles stay in the L1 cache while the others pass by. */
enum class Schedule { inputStationary, weightStationary };

/** What an experiment takes out of the hands of the analysis; by default nothing. */
struct Switches {
  std::optional<Schedule> schedule = std::nullopt;
  std::optional<Presentation> presentation = std::nullopt;
  /** Pack windows by vector shifts (section 6.2) where the micro-kernel does */
  bool vectorPacking = true;
  /** Pack all input tiles of a channel set before the first is multiplied, instead of each right before */
  bool packAhead = false;

  bool operator==(const Switches&) const = default;
};

}  // namespace warpconv::sconv
