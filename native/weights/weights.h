#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <type_traits>
#include <typeindex>
#include <utility>
#include <vector>

#include "executor/executor.h"
#include "memory/aligned_buffer.h"
#include "problem/conv_problem.h"
#include "status.h"

namespace warpconv {

/**
 * The filters of a convolution, and the forms that algorithms have made of them: packed for a micro-kernel, transformed,
 * copied to a GPU. None depends on the input's extents, so that the convolutions of one filter with inputs of any extents
 * share them. A form is made when it is first asked for. Any thread may call it.
 */
class Weights {
 public:
  /** What tells the forms of one type apart, for example by the tile that they are packed for */
  using Parameters = std::array<int64_t, 4>;

  /**
   * K x C/groups x R x S filters in CPU memory, which the caller keeps for as long as forms are made.
   *
   * @param factors one for each filter, with which its elements are multiplied, or none
   */
  Weights(const float* filters, int64_t k, int64_t filterSize, std::vector<float> factors = {})
      : filters_(filters), k_(k), filterSize_(filterSize), factors_(std::move(factors)) {}
  Weights(const Weights&) = delete;
  Weights& operator=(const Weights&) = delete;

  /**
   * The form of that type and those parameters, made by `make(filters)`, or `make()`, unless it is there: a shared pointer to a
   * Form, which says its `bytes()`, or a Result with one. Where `make` fails or throws, so does this, and keeps nothing.
   * `make` must not ask for another form of the same weights.
   */
  template <typename Form, typename Make>
  Result<std::shared_ptr<const Form>> form(const Parameters& parameters, const Make& make) {
    // A call that is suspended with the lock held would keep others from ending.
    const Executor::Undisturbed undisturbed;
    const std::lock_guard lock(mutex_);
    const Key key{typeid(Form), parameters};
    if (const auto found = forms_.find(key); found != forms_.end()) {
      return std::static_pointer_cast<const Form>(found->second.form);
    }
    Result<std::shared_ptr<const Form>> made = callMaker(make);
    if (made.isOk()) forms_.insert({key, {made.value(), made.value()->bytes()}});
    return made;
  }

  /** The largest magnitude of an element, looked for once; NaN where one is NaN. */
  float largest() const;

  /** Whether the form is there, so that a convolution that takes it costs no memory. */
  template <typename Form>
  bool has(const Parameters& parameters) const {
    const std::lock_guard lock(mutex_);
    return forms_.contains({typeid(Form), parameters});
  }

  /** `count` of the filters from the one of number `first` on, of which nothing is shared. */
  std::unique_ptr<Weights> part(int64_t first, int64_t count) const;

  /** Of all forms */
  int64_t bytes() const;
  /** Lets go of the forms that nobody else has. */
  void trim();

 private:
  using Key = std::pair<std::type_index, Parameters>;
  struct Kept {
    std::shared_ptr<const void> form;
    int64_t bytes;
  };

  /** With the filters, multiplied by their factors, where it takes any. With the mutex held. */
  template <typename Make>
  auto callMaker(const Make& make) const {
    if constexpr (std::is_invocable_v<const Make&>) {
      return make();
    } else {
      if (factors_.empty()) return make(filters_);
      const AlignedBuffer scaled = multiplied();
      return make(scaled.data());
    }
  }
  AlignedBuffer multiplied() const;

  const float* const filters_;
  const int64_t k_;
  const int64_t filterSize_;
  const std::vector<float> factors_;
  mutable std::mutex mutex_;
  std::map<Key, Kept> forms_;
  mutable std::optional<float> largest_;
};

/**
 * Whether padded elements have to be left out instead of multiplied as zeros, which an infinite or NaN one among the
 * weights would turn into NaN.
 */
bool mustSkipPadding(const ConvProblem& problem, const Weights& weights);

/** The weights of a session's network, for the programs of all sets of input extents. Any thread may call it. */
class WeightStore {
 public:
  /**
   * The weights of these filters and factors, the same object for every caller. The caller keeps the filters for as long
   * as this store lives, and changes nothing in them.
   */
  std::shared_ptr<Weights> of(const float* filters, int64_t k, int64_t filterSize, std::span<const float> factors);

  int64_t bytes() const;
  /** Lets go of the forms that no program has. */
  void trim();

 private:
  struct Entry {
    int64_t k;
    int64_t filterSize;
    std::vector<float> factors;
    std::shared_ptr<Weights> weights;
  };

  mutable std::mutex mutex_;
  std::multimap<const float*, Entry> entries_;
};

}  // namespace warpconv
