// SPDX-License-Identifier: MIT
#include <memory>

#include "jetty/context.h"
#include "jetty/ops.h"
#include "jetty/queues.h"
#include "urma/base/glue.h"
#include "urma/base/log.h"

namespace urma {
namespace {

// The two ways to make an object, and to end it, for each kind of queue.
template <typename Object, typename Handle, typename Config>
struct Life {
  static urma_status_t alloc(urma_context_t* ctx, Config* cfg, Handle** result) noexcept {
    return guarded(URMA_LOG_SITE, [&] {
      *result = std::make_unique<Object>(static_cast<Context*>(ctx), *cfg).release();
      return URMA_SUCCESS;
    });
  }

  static Handle* create(urma_context_t* ctx, Config* cfg) noexcept {
    return guarded(URMA_LOG_SITE, [&]() -> Handle* {
      auto made = std::make_unique<Object>(static_cast<Context*>(ctx), *cfg);
      made->activate();
      return made.release();
    });
  }

  static urma_status_t free(Handle* handle) noexcept {
    return guarded(URMA_LOG_SITE, [&] {
      delete static_cast<Object*>(handle);
      return URMA_SUCCESS;
    });
  }

  static urma_status_t end(Handle* handle) noexcept {
    const urma_status_t ended = Slot<&Object::deactivate, Handle>::call(handle);
    return ended == URMA_SUCCESS ? free(handle) : ended;
  }

  static urma_status_t end_batch(Handle** handles, int count, Handle** bad) noexcept {
    for (int i = 0; i < count; ++i) {
      const urma_status_t ended = end(handles[i]);
      if (ended == URMA_SUCCESS) continue;
      *bad = handles[i];
      return ended;
    }
    return URMA_SUCCESS;
  }
};

using JfcLife = Life<Jfc, urma_jfc_t, urma_jfc_cfg_t>;
using JfsLife = Life<Jfs, urma_jfs_t, urma_jfs_cfg_t>;
using JfrLife = Life<Jfr, urma_jfr_t, urma_jfr_cfg_t>;
using JettyLife = Life<Jetty, urma_jetty_t, urma_jetty_cfg_t>;

// Core writes the value where it belongs; activation looks at it.
template <typename Handle>
urma_status_t accept_option(Handle* /*handle*/, uint64_t /*option*/, void* /*value*/,
                            uint32_t /*length*/) noexcept {
  return URMA_SUCCESS;
}

}  // namespace

void add_queue_ops(urma_ops_t* ops) {
  ops->create_jfc = JfcLife::create;
  ops->delete_jfc = JfcLife::end;
  ops->delete_jfc_batch = JfcLife::end_batch;
  ops->alloc_jfc = JfcLife::alloc;
  ops->set_jfc_opt = &Slot<&Jfc::set_option, urma_jfc_t>::call;
  ops->active_jfc = &Slot<&Jfc::activate, urma_jfc_t>::call;
  ops->get_jfc_opt = &Slot<&Jfc::get_option, urma_jfc_t>::call;
  ops->deactive_jfc = &Slot<&Jfc::deactivate, urma_jfc_t>::call;
  ops->free_jfc = JfcLife::free;

  ops->create_jfs = JfsLife::create;
  ops->modify_jfs = &Slot<&Jfs::modify, urma_jfs_t>::call;
  ops->query_jfs = &Slot<&Jfs::query, urma_jfs_t>::call;
  ops->flush_jfs = &CountSlot<&Jfs::flush, urma_jfs_t>::call;
  ops->delete_jfs = JfsLife::end;
  ops->delete_jfs_batch = JfsLife::end_batch;
  ops->alloc_jfs = JfsLife::alloc;
  ops->set_jfs_opt = accept_option;
  ops->active_jfs = &Slot<&Jfs::activate, urma_jfs_t>::call;
  ops->get_jfs_opt = &Slot<&Jfs::get_option, urma_jfs_t>::call;
  ops->deactive_jfs = &Slot<&Jfs::deactivate, urma_jfs_t>::call;
  ops->free_jfs = JfsLife::free;

  ops->create_jfr = JfrLife::create;
  ops->modify_jfr = &Slot<&Jfr::modify, urma_jfr_t>::call;
  ops->query_jfr = &Slot<&Jfr::query, urma_jfr_t>::call;
  ops->delete_jfr = JfrLife::end;
  ops->delete_jfr_batch = JfrLife::end_batch;
  ops->alloc_jfr = JfrLife::alloc;
  ops->set_jfr_opt = &Slot<&Jfr::set_option, urma_jfr_t>::call;
  ops->active_jfr = &Slot<&Jfr::activate, urma_jfr_t>::call;
  ops->get_jfr_opt = &Slot<&Jfr::get_option, urma_jfr_t>::call;
  ops->deactive_jfr = &Slot<&Jfr::deactivate, urma_jfr_t>::call;
  ops->free_jfr = JfrLife::free;

  ops->create_jetty = JettyLife::create;
  ops->modify_jetty = &Slot<&Jetty::modify, urma_jetty_t>::call;
  ops->query_jetty = &Slot<&Jetty::query, urma_jetty_t>::call;
  ops->flush_jetty = &CountSlot<&Jetty::flush, urma_jetty_t>::call;
  ops->delete_jetty = JettyLife::end;
  ops->delete_jetty_batch = JettyLife::end_batch;
  ops->alloc_jetty = JettyLife::alloc;
  ops->set_jetty_opt = accept_option;
  ops->active_jetty = &Slot<&Jetty::activate, urma_jetty_t>::call;
  ops->get_jetty_opt = &Slot<&Jetty::get_option, urma_jetty_t>::call;
  ops->deactive_jetty = &Slot<&Jetty::deactivate, urma_jetty_t>::call;
  ops->free_jetty = JettyLife::free;
}

}  // namespace urma
