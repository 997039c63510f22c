// SPDX-License-Identifier: MIT
#ifndef JETTY_LEASE_H_
#define JETTY_LEASE_H_

#include <cstddef>
#include <tuple>
#include <type_traits>

namespace urma {

// Calls one method of an object when it is made, and another with the same arguments when it goes.
// Without the first one, `Begin` is nullptr.
template <auto Begin, auto End, typename Method = decltype(End)>
class Lease;

template <auto Begin, auto End, typename Object, typename... Args>
class Lease<Begin, End, void (Object::*)(Args...)> {
 public:
  explicit Lease(Object* object, const std::decay_t<Args>&... args)
      : object_(object), args_(args...) {
    if constexpr (!std::is_null_pointer_v<decltype(Begin)>) (object_->*Begin)(args...);
  }
  ~Lease() {
    std::apply([this](const auto&... args) { (object_->*End)(args...); }, args_);
  }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

 private:
  Object* const object_;
  const std::tuple<std::decay_t<Args>...> args_;
};

}  // namespace urma

#endif  // JETTY_LEASE_H_
