#pragma once

#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace warpconv {

/** The package's error codes, less those that only TypeScript raises. */
enum class StatusCode {
  ok,
  invalidArgument,
  unsupported,
  outOfMemory,
  aborted,
  disposed,
  cuda,
  cudnnNotFound,
  internal
};

/** The code's name in the public `ERR_WARPCONV_…` form, without that prefix. */
constexpr const char* codeName(StatusCode code) {
  switch (code) {
    case StatusCode::ok: return "OK";
    case StatusCode::invalidArgument: return "INVALID_ARGUMENT";
    case StatusCode::unsupported: return "UNSUPPORTED";
    case StatusCode::outOfMemory: return "OUT_OF_MEMORY";
    case StatusCode::aborted: return "ABORTED";
    case StatusCode::disposed: return "DISPOSED";
    case StatusCode::cuda: return "CUDA";
    case StatusCode::cudnnNotFound: return "CUDNN_NOT_FOUND";
    case StatusCode::internal: return "INTERNAL";
  }
  return "INTERNAL";
}

/** How a call ended: a code and, unless it is `ok`, a sentence for the caller. Moving one never throws. */
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message, std::string cudaError = {})
      : code_(code), message_(std::move(message)), cudaError_(std::move(cudaError)) {}
  /** Needs no memory: `message` is a literal. For failures that must be told whatever happens. */
  static Status ofLiteral(StatusCode code, const char* message) noexcept {
    Status status;
    status.code_ = code;
    status.literal_ = message;
    return status;
  }

  bool isOk() const { return code_ == StatusCode::ok; }
  StatusCode code() const { return code_; }
  std::string_view message() const { return literal_ != nullptr ? std::string_view(literal_) : message_; }
  /** CUDA's own name of the error, for example `cudaErrorIllegalAddress`; empty where CUDA had no part in it */
  const std::string& cudaError() const { return cudaError_; }

 private:
  StatusCode code_ = StatusCode::ok;
  const char* literal_ = nullptr;
  std::string message_;
  std::string cudaError_;
};

inline Status invalidArgument(std::string message) { return {StatusCode::invalidArgument, std::move(message)}; }
inline Status unsupported(std::string message) { return {StatusCode::unsupported, std::move(message)}; }

inline Status stoppedWhileRunning() noexcept {
  return Status::ofLiteral(StatusCode::aborted, "the call was stopped while it ran");
}

inline Status outOfMemory() noexcept {
  return Status::ofLiteral(StatusCode::outOfMemory,
                           "not enough memory for packed weights or workspace; free tensors and plans, or lower "
                           "options.workspaceLimit");
}

/** A status as an exception: what Result::value() throws where there is no value. */
class FailedStatus : public std::exception {
 public:
  explicit FailedStatus(Status status) noexcept : status_(std::move(status)) {}
  const Status& status() const { return status_; }
  const char* what() const noexcept override { return status_.message().data(); }

 private:
  Status status_;
};

/** What is being thrown, as a status. Only for a `catch` block. */
inline Status thrownStatus() noexcept {
  try {
    try {
      throw;
    } catch (const FailedStatus& failed) {
      return failed.status();
    } catch (const std::bad_alloc&) {
      return outOfMemory();
    } catch (const std::exception& error) {
      return {StatusCode::internal, error.what()};
    }
  } catch (const std::bad_alloc&) {
    return outOfMemory();
  } catch (...) {
    return Status::ofLiteral(StatusCode::internal, "native code threw what is no std::exception");
  }
}

/** A value, or the status that says why there is none. */
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : content_(std::move(value)) {}
  Result(Status failure) : content_(std::move(failure)) {}

  bool isOk() const { return std::holds_alternative<T>(content_); }
  const Status& status() const { return std::get<Status>(content_); }
  /** Throws FailedStatus where there is none, so that a failure that nobody looked at still says what failed. */
  T& value() {
    if (!isOk()) throw FailedStatus(status());
    return *std::get_if<T>(&content_);
  }
  const T& value() const {
    if (!isOk()) throw FailedStatus(status());
    return *std::get_if<T>(&content_);
  }

 private:
  std::variant<Status, T> content_;
};

}  // namespace warpconv
