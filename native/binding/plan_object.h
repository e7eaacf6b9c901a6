#pragma once

#include <napi.h>

#include <memory>

#include "planner/planner.h"

namespace warpconv::binding {

/** The NativePlan of lib/addon.ts. */
class PlanObject : public Napi::ObjectWrap<PlanObject> {
 public:
  static Napi::Function define(Napi::Env env);

  explicit PlanObject(const Napi::CallbackInfo& info);
  ~PlanObject() override;

 private:
  using Prepared = std::shared_ptr<const PreparedConvolution>;

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
  void dispose(const Napi::CallbackInfo& info);

  ConvWeights weightsFrom(const Napi::CallbackInfo& info) const;
  ConvTensors tensorsFrom(const Napi::CallbackInfo& info, size_t first) const;
  Prepared preparedOrThrow(Napi::Env env) const;
  void keep(Napi::Env env, Prepared prepared);
  void release(Napi::Env env);

  /** Shared with calls in flight, which outlive a disposed or collected plan. */
  std::shared_ptr<const Plan> plan_;
  Prepared prepared_;
};

}  // namespace warpconv::binding
