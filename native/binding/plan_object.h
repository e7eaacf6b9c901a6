#pragma once

#include <napi.h>

#include <memory>

#include "planner/backend.h"

namespace warpconv::binding {

/** A NativeCandidate of lib/addon.ts. */
Napi::Object toCandidate(Napi::Env env, const Candidate& candidate);

/** The NativePlan of lib/addon.ts. */
class PlanObject : public Napi::ObjectWrap<PlanObject> {
 public:
  static Napi::Function define(Napi::Env env);

  explicit PlanObject(const Napi::CallbackInfo& info);
  ~PlanObject() override;

 private:
  /** In CPU memory: filters and, unless null, biases */
  struct Weights {
    const float* weight;
    const float* bias;
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
  std::shared_ptr<const Prepared> preparedOrThrow(Napi::Env env) const;
  void keep(Napi::Env env, std::shared_ptr<const Prepared> prepared);
  void release(Napi::Env env);

  /** Shared with calls in flight, which outlive a disposed or collected plan. */
  std::shared_ptr<const Decision> decision_;
  std::shared_ptr<const Prepared> prepared_;
};

}  // namespace warpconv::binding
