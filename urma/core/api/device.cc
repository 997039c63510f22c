// SPDX-License-Identifier: MIT
//
// The device calls of the C interface.
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "urma/base/error.h"
#include "urma/base/guard.h"
#include "urma/core/api/bonding.h"
#include "urma/core/api/checks.h"
#include "urma/core/api/export.h"
#include "urma/core/process/core.h"
#include "urma/core/process/sysfs.h"
#include "urma_api.h"
#include "urma_provider.h"

namespace urma::core {
namespace {

// NULL if there is no device, with a log line if there can be none yet.
urma_device_t* device_or_none(const char* call, urma_device_t* device) {
  if (device != nullptr) return device;
  if (!in_use()) report_not_started(call);
  return refused(ENODEV);
}

template <typename Type>
Type* allocate_array(size_t count) {
  auto* array = static_cast<Type*>(std::calloc(count, sizeof(Type)));
  if (array == nullptr) throw std::bad_alloc();
  return array;
}

// Providers with devices of their own do not need the uasid; their contexts exist without one.
uint32_t uasid_if_any() {
  try {
    return runtime()->uasid();
  } catch (const Error&) {
    return 0;
  }
}

urma_context_t* create_context(urma_device_t* dev, uint32_t eid_index) {
  auto& table = device_table();
  urma_device_t* real = table.real_device(dev);
  Fd char_device;
  if (table.is_from_sysfs(dev)) {
    table.refresh(real);
    char_device = open_char_device(real);
  }
  const auto slot = table.provider_eid(dev, eid_index);
  if (!slot) {
    // A device that reads its table from the kernel may get this entry later.
    fail(table.is_from_sysfs(dev) ? URMA_FAIL : URMA_EINVAL, "device {} has no EID {}", dev->name,
         eid_index);
  }
  const uint32_t uasid = uasid_if_any();
  errno = 0;
  auto* ctx = dev->ops->create_context(real, slot->eid_index, char_device.get());
  if (ctx == nullptr) return refused(errno == 0 ? EIO : errno);
  Rollback undo([&] {
    ProviderView view(ctx, real);
    if (dev->ops->delete_context != nullptr) dev->ops->delete_context(ctx);
    view.context_gone();
  });
  if (ctx->ops == nullptr) {
    fail(URMA_FAIL, "provider {} made a context without operations", dev->ops->name);
  }
  if (real != dev && is_aggregated_name(dev->name)) aggregate(ctx);
  ctx->dev = dev;
  ctx->dev_fd = char_device.get();
  ctx->eid_index = eid_index;
  ctx->eid = slot->eid;
  ctx->uasid = uasid;
  ctx->aggr_mode = URMA_AGGR_MODE_STANDALONE;
  ::pthread_mutex_init(&ctx->mutex, nullptr);
  // Relaxed: no other thread has the context yet.
  ctx->ref.atomic_cnt.store(1, std::memory_order_relaxed);
  context_made(ctx);
  undo.dismiss();
  char_device.release();
  return ctx;
}

}  // namespace
}  // namespace urma::core

using namespace urma::core;

URMA_EXPORT urma_device_t** urma_get_device_list(int* num_devices) {
  return entry(__func__, [&](const char* call) -> urma_device_t** {
    if (!given(call, "num_devices", num_devices)) return refused();
    *num_devices = 0;
    if (is_forked()) return refused(ENODEV);
    device_table().rescan();
    const auto devices = device_table().list();
    if (devices.empty()) {
      device_or_none(call, nullptr);
      return nullptr;
    }
    auto** array = allocate_array<urma_device_t*>(devices.size());
    std::copy(devices.begin(), devices.end(), array);
    *num_devices = static_cast<int>(devices.size());
    return array;
  });
}

URMA_EXPORT void urma_free_device_list(urma_device_t** device_list) { std::free(device_list); }

URMA_EXPORT urma_eid_info_t* urma_get_eid_list(urma_device_t* dev, uint32_t* cnt) {
  return entry(__func__, [&](const char* call) -> urma_eid_info_t* {
    if (!check_device(call, dev) || !given(call, "cnt", cnt)) return refused();
    const auto* attr = attr_of(dev);
    if (attr->dev_cap.max_eid_cnt == 0) {
      URMA_LOG_LIMITED(ERR, "{}: max_eid_cnt of device {} is 0; use a device with EIDs", call,
                       dev->name);
      return refused();
    }
    const auto eids = device_table().current_eids(dev);
    *cnt = 0;
    if (eids.empty()) return refused(EIO);
    auto* array =
        allocate_array<urma_eid_info_t>(std::max<size_t>(attr->dev_cap.max_eid_cnt, eids.size()));
    std::copy(eids.begin(), eids.end(), array);
    *cnt = static_cast<uint32_t>(eids.size());
    return array;
  });
}

URMA_EXPORT void urma_free_eid_list(urma_eid_info_t* eid_list) { std::free(eid_list); }

URMA_EXPORT urma_device_t* urma_get_device_by_name(char* dev_name) {
  return entry(__func__, [&](const char* call) -> urma_device_t* {
    if (!given(call, "dev_name", dev_name)) return refused();
    if (::strnlen(dev_name, URMA_MAX_DEV_NAME) >= URMA_MAX_DEV_NAME) {
      URMA_LOG_LIMITED(ERR, "{}: dev_name has {} or more characters; shorten it", call,
                       URMA_MAX_DEV_NAME);
      return refused();
    }
    return device_or_none(call, is_forked() ? nullptr : device_table().find(dev_name));
  });
}

URMA_EXPORT urma_device_t* urma_get_device_by_eid(urma_eid_t eid, urma_transport_type_t type) {
  return entry(__func__, [&](const char* call) -> urma_device_t* {
    return device_or_none(call, is_forked() ? nullptr : device_table().find(eid, type));
  });
}

URMA_EXPORT urma_status_t urma_query_device(urma_device_t* dev, urma_device_attr_t* dev_attr) {
  const urma_status_t status = entry(__func__, [&](const char* call) -> urma_status_t {
    if (!open_gate(call)) return URMA_FAIL;
    if (!given(call, "dev", dev) || !given(call, "dev_attr", dev_attr)) return URMA_EINVAL;
    // A device from before urma_uninit is freed memory: it must not be read.
    if (attr_of(dev) == nullptr && !in_use()) {
      report_not_started(call);
      return URMA_FAIL;
    }
    if (!given(call, "dev->sysfs_dev", dev->sysfs_dev)) return URMA_EINVAL;
    if (!check_device(call, dev)) return URMA_FAIL;
    if (device_table().is_from_sysfs(dev)) device_table().refresh(dev);
    *dev_attr = *attr_of(dev);
    return URMA_SUCCESS;
  });
  // The one status that sets errno too.
  if (status == URMA_EINVAL) errno = EINVAL;
  return status;
}

URMA_EXPORT urma_context_t* urma_create_context(urma_device_t* dev, uint32_t eid_index) {
  return entry(__func__, [&](const char* call) -> urma_context_t* {
    if (!check_device(call, dev)) return refused();
    if (dev->ops == nullptr || dev->ops->create_context == nullptr) {
      URMA_LOG_LIMITED(ERR, "{}: the provider of device {} cannot open it; use another device",
                       call, dev->name);
      return refused();
    }
    return create_context(dev, eid_index);
  });
}

URMA_EXPORT ssize_t urma_read_sysfs_file(const char* dir, const char* file, char* buf,
                                         size_t size) {
  return read_sysfs_file(dir, file, buf, size);
}
