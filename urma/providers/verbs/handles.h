// SPDX-License-Identifier: MIT
//
// Owners of what verbs create.
#ifndef URMA_PROVIDERS_VERBS_HANDLES_H_
#define URMA_PROVIDERS_VERBS_HANDLES_H_

#include <cstring>
#include <utility>

#include "urma/base/log.h"
#include "urma/providers/verbs/verbs_api.h"

namespace urma::verbs {

// Owns one object; `Destroy` is the member of VerbsApi that ends it. What a driver does not want to
// destroy stays, with a line in the log.
template <typename Object, int (*VerbsApi::*Destroy)(Object*)>
class Handle {
 public:
  Handle() = default;
  Handle(const VerbsApi* api, Object* object) : api_(api), object_(object) {}
  Handle(Handle&& other) noexcept
      : api_(other.api_), object_(std::exchange(other.object_, nullptr)) {}
  Handle& operator=(Handle&& other) noexcept {
    if (this == &other) return *this;
    reset();
    api_ = other.api_;
    object_ = std::exchange(other.object_, nullptr);
    return *this;
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() { reset(); }

  Object* get() const { return object_; }
  Object* operator->() const { return object_; }
  explicit operator bool() const { return object_ != nullptr; }

  void reset() {
    if (object_ == nullptr) return;
    const int error = (api_->*Destroy)(std::exchange(object_, nullptr));
    if (error != 0) {
      URMA_LOG(WARNING, "an RDMA object could not be ended and stays until the program ends: {}",
               std::strerror(error));
    }
  }

 private:
  const VerbsApi* api_ = nullptr;
  Object* object_ = nullptr;
};

using ContextHandle = Handle<ibv_context, &VerbsApi::close_device>;
using PdHandle = Handle<ibv_pd, &VerbsApi::dealloc_pd>;
using MrHandle = Handle<ibv_mr, &VerbsApi::dereg_mr>;
using ChannelHandle = Handle<ibv_comp_channel, &VerbsApi::destroy_comp_channel>;
using CqHandle = Handle<ibv_cq, &VerbsApi::destroy_cq>;
using SrqHandle = Handle<ibv_srq, &VerbsApi::destroy_srq>;
using QpHandle = Handle<ibv_qp, &VerbsApi::destroy_qp>;
using AhHandle = Handle<ibv_ah, &VerbsApi::destroy_ah>;

}  // namespace urma::verbs

#endif  // URMA_PROVIDERS_VERBS_HANDLES_H_
