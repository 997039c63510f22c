// SPDX-License-Identifier: MIT
//
// Owners of what verbs create.
#ifndef URMA_PROVIDERS_VERBS_HANDLES_H_
#define URMA_PROVIDERS_VERBS_HANDLES_H_

#include <cstring>
#include <utility>

#include "urma/base/log.h"
#include "urma/providers/verbs/api.h"

namespace urma::verbs {

// Owns one object; `Destroy` is the member of Api that ends it. An object that a driver refuses to
// destroy stays, with a line in the log.
template <typename Object, int (*Api::*Destroy)(Object*)>
class Handle {
 public:
  Handle() = default;
  Handle(const Api* api, Object* object) : api_(api), object_(object) {}
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
      URMA_LOG(WARNING, "an RDMA object cannot be destroyed and stays until the program exits: {}",
               std::strerror(error));
    }
  }

 private:
  const Api* api_ = nullptr;
  Object* object_ = nullptr;
};

using ContextHandle = Handle<ibv_context, &Api::close_device>;
using PdHandle = Handle<ibv_pd, &Api::dealloc_pd>;
using MrHandle = Handle<ibv_mr, &Api::dereg_mr>;
using ChannelHandle = Handle<ibv_comp_channel, &Api::destroy_comp_channel>;
using CqHandle = Handle<ibv_cq, &Api::destroy_cq>;
using SrqHandle = Handle<ibv_srq, &Api::destroy_srq>;
using QpHandle = Handle<ibv_qp, &Api::destroy_qp>;
using AhHandle = Handle<ibv_ah, &Api::destroy_ah>;
// Ends its connection at once; blocks while one is being made, until that has succeeded or failed.
using CmId = Handle<rdma_cm_id, &Api::cm_destroy_id>;

}  // namespace urma::verbs

#endif  // URMA_PROVIDERS_VERBS_HANDLES_H_
