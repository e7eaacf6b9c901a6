#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "cuda/pointwise/candidate.h"
#include "cuda/pointwise/dynamic/blocking.h"

namespace warpconv::cuda::pointwise {

/** Blocks of a cluster that share a tile's channels, where it may be split so */
inline constexpr int kSplits[] = {1, 2, 4, 8};

/** The variant that is the paper's choice */
inline constexpr std::string_view kPaperVariant = "paper";

/** A text of a variant's length, that is made at compile time, too. */
class VariantName {
 public:
  constexpr std::string_view view() const { return {text_.data(), size_}; }
  constexpr VariantName& operator<<(std::string_view text) {
    for (const char character : text) text_[size_++] = character;
    return *this;
  }
  /** From 1 to 999 */
  constexpr VariantName& operator<<(int number) {
    if (number >= 100) text_[size_++] = static_cast<char>('0' + number / 100);
    if (number >= 10) text_[size_++] = static_cast<char>('0' + number / 10 % 10);
    text_[size_++] = static_cast<char>('0' + number % 10);
    return *this;
  }

 private:
  std::array<char, 32> text_{};
  size_t size_ = 0;
};

/** The layout, C_num and blocks of a multiprocessor: L1-c8-b2 */
constexpr VariantName nameOf(const PaperChoice& paper) {
  VariantName name;
  name << (paper.layout == Layout::filtersAcrossLanes ? "L1-c" : "L2-c") << paper.channels << "-b" << paper.blocks;
  return name;
}

/** The family, its tile's sizes and the split: 32x64x2, tensor-32x64x2-s4, warpgroup-64x32-s8 */
template <typename Tile>
constexpr VariantName nameOf(const Tile& tile, int split) {
  VariantName name;
  if (!Tile::kFamily.name.empty()) name << Tile::kFamily.name << "-";
  const NameSizes sizes = tile.sizes();
  name << sizes.filters << "x" << sizes.pixels;
  if (sizes.cut > 0) name << "x" << sizes.cut;
  if (split > 1) name << "-s" << split;
  return name;
}

namespace detail {

/** Calls use(name) for each variant. */
constexpr void forEachVariant(auto&& use) {
  VariantName paper;
  use(paper << kPaperVariant);
  for (const Layout layout : {Layout::filtersAcrossLanes, Layout::pixelsAcrossLanes}) {
    for (const int blocks : kResidentBlocks) {
      for (const int channels : kChannelCounts) use(nameOf(PaperChoice{layout, channels, blocks}));
    }
  }
  Families::forEach([&]<typename Tile>() {
    for (const Tile& tile : Tile::kernels()) {
      for (const int split : kSplits) {
        if (split == 1 || tile.mayBeSplit(split)) use(nameOf(tile, split));
      }
    }
  });
}

consteval size_t countVariants() {
  size_t count = 0;
  forEachVariant([&](const VariantName&) { ++count; });
  return count;
}

consteval auto listVariants() {
  std::array<VariantName, countVariants()> names{};
  size_t next = 0;
  forEachVariant([&](const VariantName& name) { names[next++] = name; });
  return names;
}

inline constexpr auto kVariantNames = listVariants();

consteval auto viewVariants() {
  std::array<std::string_view, kVariantNames.size()> views{};
  for (size_t i = 0; i < views.size(); ++i) views[i] = kVariantNames[i].view();
  return views;
}

}  // namespace detail

/** The planner's candidates by name, and its paper's choice; each takes the problems for which it has a kernel. */
inline constexpr auto kVariants = detail::viewVariants();

}  // namespace warpconv::cuda::pointwise
