// SPDX-License-Identifier: Apache-2.0
// Result<T>: a value or one Error. Bad input is data, not a bug, so libraries return it instead of
// throwing (gcc 12 has no std::expected). An Error is one line for a person and the exit code class
// it leads to.
#ifndef OPMETER_RESULT_H_
#define OPMETER_RESULT_H_

#include <cassert>
#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace opmeter {

/// What went wrong, as the exit code of the `opmeter` command (docs/exit-codes in the README).
enum class ErrorKind : int {
  kUsage = 2,  ///< the user named something wrong: option, input, shape, dtype, device ordinal
  kInput = 3,  ///< a file is missing, damaged or lacks something; an operator returned an error
  kInconclusive = 4,  ///< valid data, no verdict possible
  kUnavailable = 5,   ///< driver, library or permission absent, or an artifact for another device
};

/// One error. `message` is a single line without a trailing full stop's newline: what, where, what
/// to do.
struct Error {
  ErrorKind kind = ErrorKind::kInput;
  std::string message;
};

inline Error usage_error(std::string message) { return {ErrorKind::kUsage, std::move(message)}; }
inline Error input_error(std::string message) { return {ErrorKind::kInput, std::move(message)}; }
inline Error unavailable_error(std::string message) {
  return {ErrorKind::kUnavailable, std::move(message)};
}

/// A T or an Error. Reading the wrong side is a bug and asserts.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value)
      : state_(std::in_place_index<0>, std::move(value)) {}  // NOLINT: implicit on purpose
  Result(Error error)
      : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT: implicit on purpose

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  T& value() & {
    assert(ok());
    return *std::get_if<0>(&state_);
  }
  const T& value() const& {
    assert(ok());
    return *std::get_if<0>(&state_);
  }
  T&& value() && {
    assert(ok());
    return std::move(*std::get_if<0>(&state_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  const Error& error() const {
    assert(!ok());
    return *std::get_if<1>(&state_);
  }

 private:
  std::variant<T, Error> state_;
};

/// Success or an Error.
template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}  // NOLINT: implicit on purpose
  bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }
  const Error& error() const {
    assert(!ok());
    return *error_;
  }

 private:
  std::optional<Error> error_;
};

using Status = Result<void>;

}  // namespace opmeter

#endif  // OPMETER_RESULT_H_
