#include "binding/filter_ranges_function.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "binding/checked_arguments.h"
#include "binding/environment.h"
#include "binding/failure.h"
#include "weights/filter_ranges.h"

namespace warpconv::binding {
namespace {

struct Task {
  const float* weights;
  int64_t filters;
  int64_t size;
  float* ranges;
};

/** Runs no JavaScript. */
Task toTask(const Napi::Value& weights, int64_t filters, const Napi::Value& ranges) {
  const int64_t elements = toBytes(weights, "weights").second / static_cast<int64_t>(sizeof(float));
  const int64_t size = filters == 0 ? 0 : elements / filters;
  if (size * filters != elements) throwFailure(invalidArgument("weights must divide into their filters"));
  return {toFloats(weights, "weights", elements), filters, size, toFloats(ranges, "ranges", 2 * filters)};
}

void findRanges(const Task& task) {
  for (int64_t k = 0; k < task.filters; ++k) {
    const auto [largest, smallest] = filterRange(task.weights + k * task.size, task.size);
    task.ranges[2 * k] = largest;
    task.ranges[2 * k + 1] = smallest;
  }
}

}  // namespace

/** Arguments: weights, filters, ranges, done. */
Napi::Value filterRanges(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  const Napi::Array weights = toList(info[0], "weights");
  const Napi::Array filters = toList(info[1], "filters");
  const Napi::Array ranges = toList(info[2], "ranges");
  const uint32_t count = weights.Length();
  if (filters.Length() != count || ranges.Length() != count) {
    throwFailure(invalidArgument("weights, filters and ranges must be as many as each other"));
  }
  std::vector<Napi::Value> pinned;
  std::vector<int64_t> counts;
  for (uint32_t i = 0; i < count; ++i) {
    for (const Napi::Array& list : {weights, ranges}) {
      pinned.push_back(list.Get(i));
      // At once: a list that is none may say that it has any length.
      toBytes(pinned.back(), "weights or ranges");
    }
    counts.push_back(toSize(filters.Get(i), "filters"));
  }
  // Reading the lists may have run JavaScript: only from here on do arrays stay where they are.
  std::vector<Task> tasks;
  for (uint32_t i = 0; i < count; ++i) tasks.push_back(toTask(pinned[2 * i], counts[i], pinned[2 * i + 1]));
  Environment& environment = Environment::of(env);
  const uint32_t id = environment.start(
      toFunction(info[3], "done"), pinned,
      [tasks = std::move(tasks), executor = &environment.executor()](const Cancellation&) {
        for (const Task& task : tasks) {
          findRanges(task);
          executor->yield();
        }
        return Status{};
      });
  return Napi::Number::New(env, id);
}

}  // namespace warpconv::binding
