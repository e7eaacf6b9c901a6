#pragma once

#include <napi.h>

#include <memory>
#include <vector>

#include "planner/backend.h"

namespace warpconv::binding {

/** The NativeProgram of lib/addon.ts. */
class ProgramObject : public Napi::ObjectWrap<ProgramObject> {
 public:
  static Napi::Function define(Napi::Env env);

  explicit ProgramObject(const Napi::CallbackInfo& info);
  ~ProgramObject() override;

 private:
  /** What one run uses; kept by the call, so that it outlives a disposed or collected program. */
  struct Run;

  Napi::Value prepare(const Napi::CallbackInfo& info);
  Napi::Value run(const Napi::CallbackInfo& info);
  void runSync(const Napi::CallbackInfo& info);
  Napi::Value choices(const Napi::CallbackInfo& info);
  Napi::Value bytes(const Napi::CallbackInfo& info);
  void dispose(const Napi::CallbackInfo& info);

  Run runFrom(const Napi::CallbackInfo& info) const;
  void keep(Napi::Env env, std::shared_ptr<const program::PreparedProgram> prepared);
  void release(Napi::Env env);

  /** The N of `cuda:N`, or -1 for the CPU */
  int device_ = -1;
  std::shared_ptr<Backend> backend_;
  program::ProgramSpec spec_;
  std::vector<int64_t> inputBytes_;
  std::vector<int64_t> outputBytes_;
  /** The arrays that `spec_.constants` points into */
  Napi::Reference<Napi::Array> constants_;
  std::shared_ptr<const program::PreparedProgram> prepared_;
};

}  // namespace warpconv::binding
