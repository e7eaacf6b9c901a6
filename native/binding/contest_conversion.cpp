#include "binding/contest_conversion.h"

#include "binding/checked_arguments.h"
#include "binding/failure.h"

namespace warpconv::binding {
namespace {

std::vector<std::string> toStrings(const Napi::Value& value) {
  const Napi::Array list = toList(value, "the names of libraries");
  std::vector<std::string> strings;
  for (uint32_t i = 0; i < list.Length(); ++i) strings.push_back(list.Get(i).ToString());
  return strings;
}

ContestEntry toEntry(const Napi::Value& value) {
  const Napi::Object entry = toObject(value, "an entry of a contest");
  const std::string library = entry.Get("library").ToString();
  if (library == "warpconv") return OwnEntry{entry.Get("algorithm").ToString(), entry.Get("variant").ToString()};
  const RivalForm form{toLayout(entry.Get("layout"), "entry.layout"),
                       toPrecision(entry.Get("arithmetic"), "entry.arithmetic")};
  if (library == "cublas") return CublasEntry{form};
  return CudnnEntry{form};
}

Napi::Object toSpread(Napi::Env env, const Spread& spread) {
  Napi::Object object = Napi::Object::New(env);
  object.Set("median", spread.median);
  object.Set("lowerQuartile", spread.lowerQuartile);
  object.Set("upperQuartile", spread.upperQuartile);
  return object;
}

Napi::Object toResult(Napi::Env env, const ContestResult& result) {
  Napi::Object object = Napi::Object::New(env);
  object.Set("entry", static_cast<double>(result.entry));
  object.Set("algorithm", result.algorithm);
  if (!result.status.isOk()) {
    object.Set("failure", toFailure(env, result.status));
    return object;
  }
  object.Set("milliseconds", toSpread(env, result.timing.warm));
  if (result.timing.cold) object.Set("coldMilliseconds", toSpread(env, *result.timing.cold));
  object.Set("calls", result.timing.calls);
  object.Set("graph", result.timing.graph);
  object.Set("proposed", result.proposed);
  object.Set("workspaceBytes", static_cast<double>(result.workspaceBytes));
  object.Set("maxError", result.maxError);
  object.Set("maxRelativeError", result.maxRelativeError);
  return object;
}

}  // namespace

Contest toContest(const Napi::Value& value) {
  const Napi::Object object = toObject(value, "contest");
  const Napi::Array entries = toList(object.Get("entries"), "contest.entries");
  Contest contest;
  for (uint32_t i = 0; i < entries.Length(); ++i) contest.entries.push_back(toEntry(entries.Get(i)));
  contest.cudnnLibraries = toStrings(object.Get("cudnnLibraries"));
  contest.cublasLibraries = toStrings(object.Get("cublasLibraries"));
  constexpr int64_t kMostRounds = 1'000'000;
  contest.pace.rounds = static_cast<int>(toInteger(object.Get("rounds"), "contest.rounds", 1, kMostRounds));
  contest.pace.coldRounds = static_cast<int>(toInteger(object.Get("coldRounds"), "contest.coldRounds", 0, kMostRounds));
  return contest;
}

void fillReport(Napi::Env env, const ContestReport& report, Napi::Object into) {
  Napi::Array results = Napi::Array::New(env, report.results.size());
  for (uint32_t i = 0; i < report.results.size(); ++i) results.Set(i, toResult(env, report.results[i]));
  into.Set("results", results);
  into.Set("cudnnVersion", report.cudnnVersion);
  into.Set("cublasVersion", report.cublasVersion);
}

}  // namespace warpconv::binding
