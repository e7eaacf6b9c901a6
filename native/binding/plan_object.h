#pragma once

#include <napi.h>

#include <memory>

#include "backend/backend.h"
#include "binding/checked_arguments.h"

namespace warpconv::binding {

/** A NativeCandidate of lib/addon.ts. */
Napi::Object toCandidate(Napi::Env env, const Candidate& candidate);

/** What each algorithm makes of the problem of a specification (argument 0), also where every one refuses it. */
Napi::Value candidatesOf(const Napi::CallbackInfo& info);

/** The NativePlan of lib/addon.ts. */
class PlanObject {
 public:
  static constexpr napi_type_tag kTag{0x5d0c7be1fa234c19ULL, 0x83e16bd40c9a7f52ULL};

  static Napi::Function define(Napi::Env env);

  explicit PlanObject(const Napi::CallbackInfo& info);
  PlanObject(const PlanObject&) = delete;
  PlanObject& operator=(const PlanObject&) = delete;
  ~PlanObject() { release(); }

 private:
  /** In CPU memory */
  struct Weights {
    TypedElements weight;
    /** None where the data is null */
    TypedElements bias;
  };
  /** What the constructor settles: nothing of it changes. */
  struct Decision;

  Napi::Value outputDims(const Napi::CallbackInfo& info);
  Napi::Value algorithm(const Napi::CallbackInfo& info);
  Napi::Value workspaceBytes(const Napi::CallbackInfo& info);
  Napi::Value predictedMilliseconds(const Napi::CallbackInfo& info);
  Napi::Value candidates(const Napi::CallbackInfo& info);
  Napi::Value prepare(const Napi::CallbackInfo& info);
  void prepareSync(const Napi::CallbackInfo& info);
  Napi::Value run(const Napi::CallbackInfo& info);
  void runSync(const Napi::CallbackInfo& info);
  Napi::Value convolve(const Napi::CallbackInfo& info);
  void convolveSync(const Napi::CallbackInfo& info);
  Napi::Value measure(const Napi::CallbackInfo& info);
  Napi::Value measureSync(const Napi::CallbackInfo& info);
  Napi::Value holdContest(const Napi::CallbackInfo& info);
  Napi::Value variants(const Napi::CallbackInfo& info);
  void dispose(const Napi::CallbackInfo& info);

  Weights weightsFrom(const Napi::CallbackInfo& info) const;
  Operands operandsFrom(const Napi::CallbackInfo& info, size_t first) const;
  std::shared_ptr<const PreparedConvolution> preparedOrThrow() const;
  void keep(std::shared_ptr<const PreparedConvolution> prepared) noexcept;
  void release() noexcept;

  const Napi::Env env_;
  /** Shared with calls in flight, which outlive a disposed or collected plan. */
  std::shared_ptr<const Decision> decision_;
  std::shared_ptr<const PreparedConvolution> prepared_;
};

}  // namespace warpconv::binding
