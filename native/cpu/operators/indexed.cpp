#include <cstring>

#include "cpu/operators/cpu_operators.h"
#include "cpu/operators/first_wrong.h"
#include "cpu/operators/odometer.h"
#include "cpu/operators/ranges.h"
#include "program/indices.h"
#include "typed/work.h"

namespace warpconv::operators {
namespace {

using Mode = IndexedStep::Mode;
using Strides = std::span<const int64_t>;

/** Of the three lists of strides the part for some of the axes. */
std::array<Strides, 3> stridesOf(const IndexedStep& x, size_t begin, size_t end) {
  const auto part = [&](const std::vector<int64_t>& strides) { return Strides(strides).subspan(begin, end - begin); };
  return {part(x.valueStrides), part(x.dataStrides), part(x.indexStrides)};
}

class Indexing {
 public:
  Indexing(const IndexedStep& step, const int64_t* indices, const void* input, void* output)
      : step_(step),
        indices_(indices),
        input_(static_cast<const char*>(input)),
        output_(static_cast<char*>(output)),
        bytes_(widthOf(step.type)),
        free_(step.extents.size() - static_cast<size_t>(step.serialAxes)) {}

  /** Positions that never meet in one place. */
  int64_t freeCount() const { return elementsOf(freeExtents()); }
  int64_t serialCount() const { return elementsOf(serialExtents()); }

  /** Of free positions [begin, end) all serial ones, in their order. */
  void run(int64_t begin, int64_t end, FirstWrong& wrong) const {
    Odometer<3> serial(serialExtents(), stridesOf(step_, free_, step_.extents.size()), 0);
    for (int64_t i = 0, count = serialCount(); i < count; ++i, serial.next()) {
      Odometer<3> free(freeExtents(), stridesOf(step_, 0, free_), begin);
      for (int64_t j = begin; j < end; ++j, free.next()) {
        move(serial.offset(0) + free.offset(0), serial.offset(1) + free.offset(1), serial.offset(2) + free.offset(2),
             wrong);
      }
    }
  }

 private:
  std::span<const int64_t> freeExtents() const { return std::span(step_.extents).first(free_); }
  std::span<const int64_t> serialExtents() const { return std::span(step_.extents).subspan(free_); }

  void move(int64_t value, int64_t data, int64_t index, FirstWrong& wrong) const {
    const int64_t place = typed::placeOfIndices(indices_ + index, static_cast<int>(step_.axes.size()),
                                                step_.axes.data(), step_.axisStrides.data());
    if (place < 0) return wrong.note(index);
    const int64_t at = data + place;
    if (step_.mode == Mode::gather) return copy(input_ + at * bytes_, output_ + value * bytes_);
    if (step_.mode == Mode::assign) return copy(input_ + value * bytes_, output_ + at * bytes_);
    typed::withCompute(step_.type, [&](auto like) {
      using C = decltype(like);
      const C old = typed::readAs<C>(step_.type, output_, at);
      const C brought = typed::readAs<C>(step_.type, input_, value);
      typed::writeAs<C>(step_.type, typed::scattered(step_.mode, old, brought), output_, at);
    });
  }

  void copy(const char* from, char* to) const {
    switch (bytes_) {
      case 1: *to = *from; return;
      case 2: std::memcpy(to, from, 2); return;
      case 4: std::memcpy(to, from, 4); return;
      default: std::memcpy(to, from, 8); return;
    }
  }

  const IndexedStep& step_;
  const int64_t* const indices_;
  const char* const input_;
  char* const output_;
  const int64_t bytes_;
  const size_t free_;
};

/** The first component of a row of indices that is wrong. */
Status complaint(const IndexedStep& step, const int64_t* indices, int64_t row) {
  for (size_t c = 0; c < step.axes.size(); ++c) {
    const int64_t index = indices[row + static_cast<int64_t>(c)], axis = step.axes[c];
    if (index < -axis || index >= axis) return wrongIndex(row + static_cast<int64_t>(c), index, axis);
  }
  return wrongIndex(row, indices[row], step.axes[0]);
}

}  // namespace

Status indexed(const IndexedStep& step, const int64_t* indices, const void* input, void* output,
               const RunContext& context) {
  const Indexing indexing(step, indices, input, output);
  FirstWrong wrong;
  forEachRange(context, indexing.freeCount(), indexing.serialCount() * 4,
               [&](int64_t begin, int64_t end) { indexing.run(begin, end, wrong); });
  if (wrong.isFound()) return complaint(step, indices, wrong.place());
  return context.isCancelled() ? stoppedWhileRunning() : Status{};
}

}  // namespace warpconv::operators
