/* SPDX-License-Identifier: MIT */

#include "ofi/device.h"

#include <fcntl.h>
#include <rdma/fi_errno.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <mutex>

#include "ofi/log.h"

namespace urma_fi {
namespace {

std::mutex library_mutex;
bool library_started = false;  // by us
std::atomic<int> open_count{0};

// Every open device by name and EID.
std::mutex open_mutex;
std::map<std::pair<std::string, std::string>, std::weak_ptr<Device>> open_devices;

// The library's log lines are details: each failure here also logs a warning of this provider.
void pass_on(int level, char* line) {
  const fi_log_level as = level >= URMA_VLOG_LEVEL_DEBUG ? FI_LOG_DEBUG : FI_LOG_INFO;
  FI_LOG(&provider, as, FI_LOG_CORE, "%s", line);
}

bool start_library() {
  std::lock_guard lock(library_mutex);
  if (library_started) return true;
  urma_register_log_func(pass_on);
  const urma_status_t status = urma_init(nullptr);
  library_started = status == URMA_SUCCESS;
  // Another part of the program has started it: the log belongs to that part.
  if (!library_started) urma_unregister_log_func();
  return library_started || status == URMA_EEXIST;
}

bool look_at(urma_device_t* device, Found* found) {
  uint32_t count = 0;
  urma_eid_info_t* eids = urma_get_eid_list(device, &count);
  if (eids == nullptr) return false;
  found->name = device->name;
  found->eids.assign(eids, eids + count);
  urma_free_eid_list(eids);
  return count > 0 && urma_query_device(device, &found->attr) == URMA_SUCCESS &&
         (found->attr.dev_cap.trans_mode & URMA_TM_RC) != 0 &&
         (found->attr.dev_cap.trans_mode & URMA_TM_RM) != 0;
}

bool index_of(urma_device_t* device, const urma_eid_t* eid, uint32_t* index) {
  Found found;
  if (!look_at(device, &found)) return false;
  for (const urma_eid_info_t& info : found.eids)
    if (eid == nullptr || same_eid(info.eid, *eid)) return *index = info.eid_index, true;
  return false;
}

}  // namespace

std::vector<Found> find_devices() {
  std::vector<Found> devices;
  if (!start_library()) return devices;
  int count = 0;
  urma_device_t** list = urma_get_device_list(&count);
  for (int i = 0; i < count && list != nullptr; i++) {
    Found found;
    if (look_at(list[i], &found)) devices.push_back(std::move(found));
  }
  urma_free_device_list(list);
  return devices;
}

void end_library() {
  std::lock_guard lock(library_mutex);
  // No complaint if a program exits with open endpoints.
  if (library_started && open_count == 0) urma_uninit();
  if (library_started) urma_unregister_log_func();
  library_started = false;
}

std::shared_ptr<Device> Device::open(const std::string& name, const urma_eid_t* eid, int* error) {
  *error = -FI_ENODEV;
  if (!start_library()) return nullptr;
  urma_device_t* device = urma_get_device_by_name(const_cast<char*>(name.c_str()));
  uint32_t index = 0;
  urma_device_attr_t attr;
  if (device == nullptr || !index_of(device, eid, &index) ||
      urma_query_device(device, &attr) != URMA_SUCCESS) {
    URMA_FI_WARN(FI_LOG_DOMAIN, "no device %s with this EID; see fi_info -p urma\n", name.c_str());
    return nullptr;
  }
  std::lock_guard lock(open_mutex);
  std::weak_ptr<Device>& known = open_devices[{name, std::to_string(index)}];
  if (std::shared_ptr<Device> open = known.lock()) return open;
  urma_context_t* context = urma_create_context(device, index);
  if (context == nullptr) {
    *error = error_of_errno();
    URMA_FI_WARN(FI_LOG_DOMAIN, "device %s cannot be opened: %s\n", name.c_str(),
                 fi_strerror(-*error));
    return nullptr;
  }
  // Events are polled, never waited for.
  fcntl(context->async_fd, F_SETFL, fcntl(context->async_fd, F_GETFL) | O_NONBLOCK);
  std::shared_ptr<Device> made(new Device(context, attr.dev_cap));
  known = made;
  open_count++;
  return made;
}

Device::~Device() {
  open_count--;
  if (urma_delete_context(context_) != URMA_SUCCESS)
    URMA_FI_WARN(FI_LOG_DOMAIN, "a device stays open: some of its objects still exist\n");
}

void Device::take_events() {
  urma_async_event_t event;
  while (urma_get_async_event(context_, &event) == URMA_SUCCESS) {
    if (event.event_type == URMA_EVENT_JETTY_ERR) {
      const uint64_t owner = event.element.jetty->jetty_cfg.user_ctx;
      // Jettys for connection messages have no owner.
      if (owner != 0) reinterpret_cast<JettyOwner*>(owner)->on_peer_lost();
    }
    urma_ack_async_event(&event);
  }
}

}  // namespace urma_fi
