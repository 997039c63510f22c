// SPDX-License-Identifier: MIT
#include "urma/core/process/devices.h"

#include <dlfcn.h>
#include <fcntl.h>

#include <algorithm>
#include <cstring>

#include "urma/base/error.h"
#include "urma/base/guard.h"
#include "urma/base/text.h"
#include "urma/core/process/log_sink.h"

namespace urma::core {
namespace {

// Attributes that were in force before are so again, without a copy.
void store_attr(urma_sysfs_dev* entry, const urma_device_attr_t& attr) {
  const auto known = std::ranges::find_if(entry->attrs, [&](const auto& one) {
    // A difference in padding costs a copy. NOLINTNEXTLINE(bugprone-suspicious-memory-comparison)
    return std::memcmp(one.get(), &attr, sizeof attr) == 0;
  });
  if (known != entry->attrs.end()) {
    std::rotate(known, known + 1, entry->attrs.end());
    return;
  }
  auto copy = std::make_unique<urma_device_attr_t>();
  std::memcpy(copy.get(), &attr, sizeof attr);
  entry->attrs.push_back(std::move(copy));
}

std::vector<urma_eid_info_t> numbered(std::span<const urma_eid_t> eids) {
  std::vector<urma_eid_info_t> table;
  for (const urma_eid_t& eid : eids) table.push_back({eid, static_cast<uint32_t>(table.size())});
  return table;
}

bool in_match_table(const urma_match_entry_t* table, const SysfsDevice& device) {
  for (; table != nullptr && table->vendor_id != 0 && table->device_id != 0; ++table) {
    if (table->vendor_id == device.vendor_id && table->device_id == device.device_id) return true;
  }
  return false;
}

urma_ext_provider_t describe(const urma_provider_ops_t* ops) {
  urma_ext_provider_t provider = {};
  copy_text(provider.name, ops->name);
  Dl_info module = {};
  if (::dladdr(ops, &module) != 0) copy_text(provider.path, module.dli_fname);
  return provider;
}

// True if the provider has started; else *reason says why not.
bool start(const urma_provider_ops_t& ops, urma_init_attr_t* conf, std::string* reason) {
  const LogCapture lines;
  const urma_status_t status =
      ops.init == nullptr ? URMA_EINVAL : guarded(URMA_LOG_SITE, [&] { return ops.init(conf); });
  if (status == URMA_SUCCESS) return true;
  *reason =
      lines.last().empty() ? urma::format("its init returned status {}", status) : lines.last();
  return false;
}

}  // namespace

void DeviceTable::add_provider(urma_provider_ops_t* ops) {
  const MutexLock lock(mutex_);
  providers_.push_back({ops, false, {}});
}

bool DeviceTable::has_providers() const {
  const MutexLock lock(mutex_);
  return !providers_.empty();
}

urma_sysfs_dev* DeviceTable::add(urma_provider_ops_t* ops, const std::string& name,
                                 urma_transport_type_t type, const urma_device_attr_t& attr) {
  auto entry = std::make_unique<urma_sysfs_dev>();
  name.copy(entry->device.name, URMA_MAX_DEV_NAME - 1);
  entry->device.type = type;
  entry->device.ops = ops;
  entry->device.sysfs_dev = entry.get();
  store_attr(entry.get(), attr);
  devices_.push_back(std::move(entry));
  return devices_.back().get();
}

void DeviceTable::add_device(urma_provider_ops_t* ops, const DeviceDescription& device) {
  const std::string name = device.name;
  if (name.empty() || name.size() >= URMA_MAX_DEV_NAME) {
    fail(URMA_EINVAL, "invalid device name \"{}\"", name);
  }
  if (find(name) != nullptr) fail(URMA_EEXIST, "duplicate device name {}", name);
  const MutexLock lock(mutex_);
  auto* entry = add(ops, name, device.type, device.attr);
  entry->made_by_provider = true;
  entry->inspector = device.inspector;
  entry->details = device.details;
  entry->register_dmabuf = device.register_dmabuf;
  entry->memory = device.memory;
  entry->ports = device.ports;
  entry->eids = numbered({device.eids, device.eid_count});
  if (device.aggregated_eid != 0) {
    entry->aggregated_eid = {device.eids[device.aggregated_eid], device.aggregated_eid};
  }
}

void DeviceTable::explain(urma_provider_ops_t* ops, const std::string& reason) {
  const MutexLock lock(mutex_);
  reasons_[ops] = reason;
}

void DeviceTable::set_port_state(const char* device, uint32_t port, urma_port_state_t state) {
  const MutexLock lock(mutex_);
  urma_sysfs_dev* entry = named(device);
  if (entry == nullptr || port >= entry->attrs.back()->port_cnt) return;
  urma_device_attr_t attr = *entry->attrs.back();
  attr.port_attr[port].state = state;
  store_attr(entry, attr);
}

void DeviceTable::set_eids(const char* device, std::span<const urma_eid_t> eids) {
  std::vector<urma_eid_info_t> table = numbered(eids);
  const MutexLock lock(mutex_);
  urma_sysfs_dev* entry = named(device);
  if (entry == nullptr) return;
  urma_device_attr_t attr = *entry->attrs.back();
  attr.dev_cap.max_eid_cnt =
      std::max(attr.dev_cap.max_eid_cnt, static_cast<uint32_t>(table.size()));
  store_attr(entry, attr);
  entry->eids = std::move(table);
}

void DeviceTable::init_providers(urma_init_attr_t* conf) {
  std::vector<Provider> candidates;
  std::vector<urma_ext_provider_t> failed;
  {
    const MutexLock lock(mutex_);
    candidates = providers_;
    reasons_.clear();
  }
  for (auto& provider : candidates) {
    // Unlocked: init calls back to add its devices.
    std::string reason;
    provider.ready = start(*provider.ops, conf, &reason);
    provider.described = describe(provider.ops);
    if (!provider.ready) {
      URMA_LOG(WARNING, "provider {} does not start and is left out", provider.ops->name);
      failed.push_back(provider.described);
      copy_text(failed.back().reason, reason);
    }
  }
  const MutexLock lock(mutex_);
  for (auto& provider : candidates) {
    const auto reason = reasons_.find(provider.ops);
    if (reason != reasons_.end()) copy_text(provider.described.reason, reason->second);
  }
  failed_ = std::move(failed);
  std::erase_if(devices_, [&](const auto& entry) {
    return std::any_of(candidates.begin(), candidates.end(), [&](const auto& provider) {
      return provider.ops == entry->device.ops && !provider.ready;
    });
  });
  std::erase_if(candidates, [](const auto& provider) { return !provider.ready; });
  providers_ = std::move(candidates);
}

bool DeviceTable::uninit_providers() {
  std::vector<Provider> providers;
  {
    const MutexLock lock(mutex_);
    providers.swap(providers_);
  }
  bool all = true;
  for (const auto& provider : providers) {
    if (!provider.ready) continue;
    const bool done = provider.ops->uninit != nullptr && guarded(URMA_LOG_SITE, [&] {
                                                           return provider.ops->uninit();
                                                         }) == URMA_SUCCESS;
    if (!done) URMA_LOG(WARNING, "provider {} failed to end", provider.ops->name);
    all = all && done;
  }
  return all;
}

void DeviceTable::clear() {
  const MutexLock lock(mutex_);
  devices_.clear();
  providers_.clear();
  aliases_.clear();
}

urma_sysfs_dev* DeviceTable::named(const std::string& name) const {
  for (const auto& entry : devices_) {
    if (name == entry->device.name) return entry.get();
  }
  return nullptr;
}

bool DeviceTable::add_alias(const Alias& alias) {
  auto* device = named(alias.device);
  if (device == nullptr || named(alias.name) != nullptr) return false;
  auto entry = std::make_unique<urma_sysfs_dev>();
  entry->base = device->base == nullptr ? device : device->base;
  entry->device = entry->base->device;
  std::memset(entry->device.name, 0, sizeof entry->device.name);
  alias.name.copy(entry->device.name, URMA_MAX_DEV_NAME - 1);
  entry->device.sysfs_dev = entry.get();
  if (is_aggregated_name(alias.name)) {
    entry->aggregated_ops = *entry->base->device.ops;
    entry->aggregated_ops.name = kAggregatingProvider;
    entry->device.ops = &entry->aggregated_ops;
  }
  devices_.push_back(std::move(entry));
  return true;
}

void DeviceTable::set_aliases(std::vector<Alias> aliases) {
  // A log callback may ask for devices, so no line is written under the lock.
  std::vector<std::string> complaints;
  add_aliases(std::move(aliases), &complaints);
  for (const auto& line : complaints) URMA_LOG(WARNING, "{}", line);
}

void DeviceTable::add_aliases(std::vector<Alias> aliases, std::vector<std::string>* complaints) {
  const MutexLock lock(mutex_);
  aliases_.clear();
  // An alias may name one behind it.
  const auto made = [&](const Alias& alias) URMA_REQUIRES(mutex_) {
    if (!add_alias(alias)) return false;
    aliases_.push_back(alias);
    return true;
  };
  while (std::erase_if(aliases, made) != 0) continue;
  for (const Alias& alias : aliases) {
    const bool taken = named(alias.name) != nullptr;
    if (alias.setting == nullptr) {
      // The default alias: no log line.
    } else if (taken) {
      complaints->push_back(
          urma::format("{}: {}={} is left out: device {} exists; choose another name",
                       alias.setting, alias.name, alias.device, alias.name));
    } else {
      complaints->push_back(
          urma::format("{}: {}={} has no effect until there is a device {}; see "
                       "urma_get_device_list for the names",
                       alias.setting, alias.name, alias.device, alias.device));
    }
    if (!taken) aliases_.push_back(alias);
  }
}

urma_provider_ops_t* DeviceTable::match(const SysfsDevice& device) const {
  for (const auto& provider : providers_) {
    if (in_match_table(provider.ops->match_table, device)) return provider.ops;
  }
  for (const auto& provider : providers_) {
    if (device.driver_name == provider.ops->name) return provider.ops;
  }
  return nullptr;
}

void DeviceTable::rescan() {
  std::vector<std::string> complaints;
  look_again(&complaints);
  for (const auto& line : complaints) URMA_LOG(WARNING, "{}", line);
}

void DeviceTable::look_again(std::vector<std::string>* complaints) {
  const auto found = list_sysfs_devices(host()->settings->text("URMA_SYSFS_ROOT"));
  const MutexLock lock(mutex_);
  for (auto& entry : devices_) {
    if (entry->base != nullptr) continue;
    entry->present =
        entry->made_by_provider || std::any_of(found.begin(), found.end(), [&](const auto& device) {
          return device.name == entry->device.name;
        });
  }
  for (const auto& device : found) {
    const bool known = std::any_of(devices_.begin(), devices_.end(), [&](const auto& entry) {
      return entry->base == nullptr && device.name == entry->device.name;
    });
    auto* ops = known ? nullptr : match(device);
    if (ops == nullptr) continue;
    const auto attr = read_sysfs_attr(device.path);
    auto* entry = add(ops, device.name, device.type, attr);
    device.path.copy(entry->device.path, URMA_MAX_PATH - 1);
    entry->eids = read_sysfs_eids(device.path, attr.dev_cap.max_eid_cnt);
  }
  const auto made = [&](const Alias& alias) URMA_REQUIRES(mutex_) { return add_alias(alias); };
  while (std::any_of(aliases_.begin(), aliases_.end(), made)) continue;
  for (auto& entry : devices_) {
    if (entry->base == nullptr) continue;
    const bool shown = !has_device(entry->device.name);
    const char* setting = asking_for(entry->device.name);
    if (entry->present && !shown && setting != nullptr) {
      complaints->push_back(
          urma::format("{}: {} is hidden by a new device of that name; choose another name",
                       setting, entry->device.name));
    }
    entry->present = shown;
  }
}

const char* DeviceTable::asking_for(const std::string& name) const {
  const auto alias = std::find_if(aliases_.begin(), aliases_.end(),
                                  [&](const Alias& known) { return known.name == name; });
  return alias == aliases_.end() ? nullptr : alias->setting;
}

bool DeviceTable::has_device(const std::string& name) const {
  return std::any_of(devices_.begin(), devices_.end(), [&](const auto& entry) {
    return entry->base == nullptr && entry->present && name == entry->device.name;
  });
}

std::vector<urma_device_t*> DeviceTable::list() const {
  const MutexLock lock(mutex_);
  std::vector<urma_device_t*> devices;
  for (const auto& entry : devices_) {
    const bool present = entry->base == nullptr || entry->base->present;
    if (entry->present && present) devices.push_back(&entry->device);
  }
  return devices;
}

urma_device_t* DeviceTable::find(const std::string& name) const {
  for (auto* device : list()) {
    if (name == device->name) return device;
  }
  return nullptr;
}

urma_device_t* DeviceTable::find(const urma_eid_t& eid, urma_transport_type_t type) const {
  for (auto* device : list()) {
    if (device->type != type) continue;
    for (const auto& info : eids_of(device)) {
      if (std::memcmp(&info.eid, &eid, sizeof eid) == 0) return device;
    }
  }
  return nullptr;
}

urma_sysfs_dev* DeviceTable::listed(const urma_device_t* device) const {
  for (const auto& entry : devices_) {
    if (&entry->device == device) return entry.get();
  }
  return nullptr;
}

urma_sysfs_dev* DeviceTable::entry_of(const urma_device_t* device) const {
  auto* entry = listed(device);
  return entry == nullptr || entry->base == nullptr ? entry : entry->base;
}

const urma_device_attr_t* DeviceTable::attr_of(const urma_device_t* device) const {
  const MutexLock lock(mutex_);
  auto* entry = listed(device);
  if (entry == nullptr) return nullptr;
  if (entry->aggregated()) {
    urma_device_attr_t attr = *entry->base->attrs.back();
    attr.dev_cap.max_eid_cnt = std::min(attr.dev_cap.max_eid_cnt, 1U);
    attr.dev_cap.max_netaddr_cnt = std::min(attr.dev_cap.max_netaddr_cnt, 1U);
    store_attr(entry, attr);
    return entry->attrs.back().get();
  }
  return (entry->base == nullptr ? entry : entry->base)->attrs.back().get();
}

const SegmentInspector* DeviceTable::inspector_of(const urma_device_t* device) const {
  const MutexLock lock(mutex_);
  const auto* entry = entry_of(device);
  return entry == nullptr ? nullptr : entry->inspector;
}

RegisterDmabuf DeviceTable::dmabufs_of(const urma_device_t* device) const {
  const MutexLock lock(mutex_);
  const auto* entry = entry_of(device);
  return entry == nullptr ? nullptr : entry->register_dmabuf;
}

const DeviceMemoryCalls* DeviceTable::memory_of(const urma_device_t* device) const {
  const MutexLock lock(mutex_);
  const auto* entry = entry_of(device);
  return entry == nullptr ? nullptr : entry->memory;
}

std::optional<urma_ext_device_t> DeviceTable::details_of(const urma_device_t* device) const {
  const MutexLock lock(mutex_);
  const auto* entry = entry_of(device);
  if (entry == nullptr) return std::nullopt;
  urma_ext_device_t details = entry->details;
  if (entry->device.ops != nullptr) copy_text(details.provider, entry->device.ops->name);
  return details;
}

std::vector<const SegmentInspector*> DeviceTable::inspectors() const {
  const MutexLock lock(mutex_);
  std::vector<const SegmentInspector*> inspectors;
  for (const auto& entry : devices_) {
    const auto* inspector = entry->inspector;
    if (inspector == nullptr ||
        std::find(inspectors.begin(), inspectors.end(), inspector) != inspectors.end()) {
      continue;
    }
    inspectors.push_back(inspector);
  }
  return inspectors;
}

std::vector<urma_ext_provider_t> DeviceTable::providers() const {
  const MutexLock lock(mutex_);
  std::vector<urma_ext_provider_t> providers;
  for (const auto& provider : providers_) {
    if (!provider.ready) continue;
    providers.push_back(provider.described);
    providers.back().loaded = 1;
    providers.back().devices = static_cast<uint32_t>(
        std::count_if(devices_.begin(), devices_.end(), [&](const auto& entry) {
          return entry->base == nullptr && entry->present && entry->device.ops == provider.ops;
        }));
  }
  providers.insert(providers.end(), failed_.begin(), failed_.end());
  return providers;
}

std::vector<ShownDevice> DeviceTable::shown() const {
  const MutexLock lock(mutex_);
  std::vector<ShownDevice> shown;
  for (const auto& entry : devices_) {
    if (!entry->made_by_provider) continue;
    const urma_device_t& device = entry->device;
    const urma_device_attr_t& attr = *entry->attrs.back();
    shown.push_back({device.name,
                     sysfs_files(device.name, device.ops->name, device.type, attr, entry->eids,
                                 entry->ports != nullptr),
                     attr.port_cnt, entry->ports});
  }
  return shown;
}

bool DeviceTable::is_from_sysfs(const urma_device_t* device) const {
  const MutexLock lock(mutex_);
  const auto* entry = entry_of(device);
  return entry != nullptr && !entry->made_by_provider;
}

urma_device_t* DeviceTable::real_device(urma_device_t* device) const {
  const MutexLock lock(mutex_);
  auto* entry = entry_of(device);
  return entry == nullptr ? device : &entry->device;
}

void DeviceTable::refresh(urma_device_t* device) {
  const Fd reachable = open_char_device(real_device(device));
  const auto attr = read_sysfs_attr(device->path);
  auto eids = read_sysfs_eids(device->path, attr.dev_cap.max_eid_cnt);
  const MutexLock lock(mutex_);
  auto* entry = entry_of(device);
  if (entry == nullptr) return;
  store_attr(entry, attr);
  entry->eids = std::move(eids);
}

std::vector<urma_eid_info_t> DeviceTable::provider_eids(const urma_device_t* device) const {
  const auto* entry = listed(device);
  if (entry == nullptr) return {};
  const auto& base = entry->base == nullptr ? *entry : *entry->base;
  if (!entry->aggregated()) return base.eids;
  if (base.aggregated_eid) return {*base.aggregated_eid};
  return {base.eids.begin(), base.eids.begin() + std::min<ptrdiff_t>(1, std::ssize(base.eids))};
}

std::vector<urma_eid_info_t> DeviceTable::eids_of(const urma_device_t* device) const {
  const MutexLock lock(mutex_);
  auto eids = provider_eids(device);
  const auto* entry = listed(device);
  if (entry != nullptr && entry->aggregated() && !eids.empty()) eids.front().eid_index = 0;
  return eids;
}

std::optional<urma_eid_info_t> DeviceTable::provider_eid(const urma_device_t* device,
                                                         uint32_t eid_index) const {
  const MutexLock lock(mutex_);
  const auto* entry = listed(device);
  const bool one = entry != nullptr && entry->aggregated();
  for (const auto& info : provider_eids(device)) {
    if (eid_index == (one ? 0 : info.eid_index)) return info;
  }
  return std::nullopt;
}

// Not those of an aggregated device over it, which has its own.
uint32_t DeviceTable::eid_slots(const urma_device_t* device) const {
  const MutexLock lock(mutex_);
  return entry_of(device)->attrs.back()->dev_cap.max_eid_cnt;
}

std::vector<urma_eid_info_t> DeviceTable::current_eids(const urma_device_t* device) {
  if (is_from_sysfs(device)) {
    auto eids = read_sysfs_eids(device->path, eid_slots(device));
    const MutexLock lock(mutex_);
    entry_of(device)->eids = std::move(eids);
  }
  return eids_of(device);
}

std::optional<uint32_t> DeviceTable::provider_uasid() const {
  std::vector<Provider> providers;
  {
    const MutexLock lock(mutex_);
    providers = providers_;
  }
  // Unlocked: a provider may log, or wait for the service thread.
  for (const auto& provider : providers) {
    uint32_t uasid = 0;
    if (provider.ops->get_uasid != nullptr && provider.ops->get_uasid(&uasid) == URMA_SUCCESS) {
      return uasid;
    }
  }
  return std::nullopt;
}

Fd open_char_device(const urma_device_t* device) {
  const auto path = urma::format("/dev/uburma/{}", device->name);
  Fd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!fd.valid()) fail_errno(URMA_FAIL, urma::format("opening {}", path));
  return fd;
}

}  // namespace urma::core
