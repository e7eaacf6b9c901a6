#pragma once

#include <napi.h>

#include <memory>
#include <optional>
#include <vector>

#include "backend/backend.h"
#include "executor/executor.h"

namespace warpconv::binding {

class StoreObject;

/** The NativeProgram of lib/addon.ts. */
class ProgramObject {
 public:
  static constexpr napi_type_tag kTag{0xa27f60c8d1e5439bULL, 0xb60f2d9485c3ea17ULL};

  static Napi::Function define(Napi::Env env);

  explicit ProgramObject(const Napi::CallbackInfo& info);
  ProgramObject(const ProgramObject&) = delete;
  ProgramObject& operator=(const ProgramObject&) = delete;
  ~ProgramObject() { release(); }

 private:
  /** What one run uses; kept by the call, so that it outlives a disposed or collected program. */
  struct Run;
  /** What JavaScript gives a run. */
  struct Values;

  void add(const Napi::CallbackInfo& info);
  Napi::Value prepare(const Napi::CallbackInfo& info);
  Napi::Value run(const Napi::CallbackInfo& info);
  void runSync(const Napi::CallbackInfo& info);
  Napi::Value choices(const Napi::CallbackInfo& info);
  Napi::Value bytes(const Napi::CallbackInfo& info);
  void dispose(const Napi::CallbackInfo& info);

  void addPart(const Napi::Object& part);
  void addConstants(const Napi::Array& given, const std::vector<bool>& shared);
  void requireUnprepared() const;
  Values valuesFrom(const Napi::CallbackInfo& info) const;
  Run runOf(const Values& values) const;
  void keep(std::shared_ptr<const program::PreparedProgram> prepared) noexcept;
  void release() noexcept;

  const Napi::Env env_;
  /** The N of `cuda:N`, or -1 for the CPU */
  int device_ = -1;
  std::shared_ptr<Backend> backend_;
  /** Until it is prepared, and has it itself */
  std::shared_ptr<program::Store> store_;
  /** Kept by the reference */
  StoreObject* storeObject_ = nullptr;
  Napi::ObjectReference storeReference_;
  /** Until it is prepared */
  std::optional<program::ProgramSpec> spec_;
  std::vector<int64_t> inputBytes_;
  std::vector<int64_t> outputBytes_;
  /** The arrays that `spec_->constants` points into */
  Napi::Reference<Napi::Array> constants_;
  std::shared_ptr<const program::PreparedProgram> prepared_;
  const std::shared_ptr<Executor::Client> client_ = std::make_shared<Executor::Client>();
};

}  // namespace warpconv::binding
