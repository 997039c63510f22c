// SPDX-License-Identifier: MIT
#include "urma/core/process/sysfs.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "third_party/fmt/format.h"
#include "urma/base/fd.h"
#include "urma/base/ip.h"
#include "urma_provider.h"

namespace urma::core {

ssize_t read_sysfs_file(const char* dir, const char* file, char* buf, size_t size) {
  if (dir == nullptr || file == nullptr || buf == nullptr || size == 0) return -1;
  char path[URMA_MAX_PATH];
  const int length = std::snprintf(path, sizeof path, "%s/%s", dir, file);
  if (length < 0 || static_cast<size_t>(length) >= sizeof path) return -1;
  const Fd fd(::open(path, O_RDONLY | O_CLOEXEC));
  ssize_t got = fd.valid() ? ::read(fd.get(), buf, size) : -1;
  // An exactly full buffer may hold half of the value, and has no room for the ending zero.
  if (got <= 0 || static_cast<size_t>(got) == size) return -1;
  if (buf[got - 1] == '\n') --got;
  buf[got] = '\0';
  return got;
}

namespace {

constexpr size_t kMaxValue = 256;

// "" if the file is missing.
std::string read_text(const std::string& dir, const std::string& file) {
  char text[kMaxValue];
  return read_sysfs_file(dir.c_str(), file.c_str(), text, sizeof text) < 0 ? "" : text;
}

uint64_t read_number(const std::string& dir, const std::string& file) {
  return std::strtoull(read_text(dir, file).c_str(), nullptr, 0);
}

struct AttrFile {
  const char* name;
  size_t offset;  // in urma_device_cap_t
  size_t size;
};

#define ATTR_FILE(file, field) \
  { file, offsetof(urma_device_cap_t, field), sizeof(urma_device_cap_t::field) }

constexpr AttrFile kAttrFiles[] = {
    ATTR_FILE("feature", feature),
    ATTR_FILE("max_jfc", max_jfc),
    ATTR_FILE("max_jfs", max_jfs),
    ATTR_FILE("max_jfr", max_jfr),
    ATTR_FILE("max_jetty", max_jetty),
    ATTR_FILE("max_jetty_grp", max_jetty_grp),
    ATTR_FILE("max_jetty_in_jetty_grp", max_jetty_in_jetty_grp),
    ATTR_FILE("max_jfc_depth", max_jfc_depth),
    ATTR_FILE("max_jfs_depth", max_jfs_depth),
    ATTR_FILE("max_jfr_depth", max_jfr_depth),
    ATTR_FILE("max_jfs_inline_size", max_jfs_inline_len),
    ATTR_FILE("max_jfs_sge", max_jfs_sge),
    ATTR_FILE("max_jfs_rsge", max_jfs_rsge),
    ATTR_FILE("max_jfr_sge", max_jfr_sge),
    ATTR_FILE("max_msg_size", max_msg_size),
    ATTR_FILE("max_read_size", max_read_size),
    ATTR_FILE("max_write_size", max_write_size),
    ATTR_FILE("max_cas_size", max_cas_size),
    ATTR_FILE("max_swap_size", max_swap_size),
    ATTR_FILE("max_fetch_and_add_size", max_fetch_and_add_size),
    ATTR_FILE("max_fetch_and_sub_size", max_fetch_and_sub_size),
    ATTR_FILE("max_fetch_and_and_size", max_fetch_and_and_size),
    ATTR_FILE("max_fetch_and_or_size", max_fetch_and_or_size),
    ATTR_FILE("max_fetch_and_xor_size", max_fetch_and_xor_size),
    ATTR_FILE("atomic_feat", atomic_feat),
    ATTR_FILE("trans_mode", trans_mode),
    ATTR_FILE("congestion_ctrl_alg", congestion_ctrl_alg),
    ATTR_FILE("ceq_cnt", ceq_cnt),
    ATTR_FILE("max_tp_in_tpg", max_tp_in_tpg),
    ATTR_FILE("max_eid_cnt", max_eid_cnt),
    ATTR_FILE("page_size_cap", page_size_cap),
    ATTR_FILE("max_oor_cnt", max_oor_cnt),
    ATTR_FILE("mn", mn),
    ATTR_FILE("max_netaddr_cnt", max_netaddr_cnt),
};

#undef ATTR_FILE

// read_sysfs_attr() copies the low bytes of a number, which come first on little-endian machines.
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);

void read_ports(const std::string& path, urma_device_attr_t* attr) {
  attr->port_cnt =
      static_cast<uint8_t>(std::min<uint64_t>(read_number(path, "port_count"), MAX_PORT_CNT));
  for (int i = 0; i < attr->port_cnt; ++i) {
    const auto dir = urma::format("{}/port{}", path, i);
    auto& port = attr->port_attr[i];
    port.max_mtu = static_cast<urma_mtu_t>(read_number(dir, "max_mtu"));
    port.state = static_cast<urma_port_state_t>(read_number(dir, "state"));
    port.active_width = static_cast<urma_link_width_t>(read_number(dir, "active_width"));
    port.active_speed = static_cast<urma_speed_t>(read_number(dir, "active_speed"));
    port.active_mtu = static_cast<urma_mtu_t>(read_number(dir, "active_mtu"));
  }
}

void read_priorities(const std::string& path, urma_device_cap_t* cap) {
  for (int i = 0; i < URMA_MAX_PRIORITY_CNT; ++i) {
    const auto dir = urma::format("{}/priority/priority{}", path, i);
    cap->priority_info[i].SL = static_cast<uint32_t>(read_number(dir, "sl"));
    cap->priority_info[i].tp_type.value = static_cast<uint32_t>(read_number(dir, "tp_type"));
  }
}

std::string address_text(const uint8_t* raw) {
  char text[INET6_ADDRSTRLEN];
  return ::inet_ntop(AF_INET6, raw, text, sizeof text);
}

// Collects files of one number each.
class FileList {
 public:
  void add(const std::string& name, uint64_t value, bool writable = false) {
    add(name, std::to_string(value), writable);
  }
  void add(const std::string& name, const std::string& value, bool writable = false) {
    files_.push_back({name, value + "\n", writable});
  }
  std::vector<AttributeFile> take() { return std::move(files_); }

 private:
  std::vector<AttributeFile> files_;
};

void add_ports(const urma_device_attr_t& attr, bool writable, FileList* files) {
  files->add("port_count", attr.port_cnt);
  for (int i = 0; i < attr.port_cnt; ++i) {
    const auto& port = attr.port_attr[i];
    const auto dir = urma::format("port{}/", i);
    files->add(dir + "max_mtu", port.max_mtu);
    // Where it can be written, that counts, not the state of a link: nobody has written yet.
    const bool written = writable && i == 0;
    files->add(dir + "state", written ? URMA_PORT_ACTIVE : port.state, written);
    files->add(dir + "active_width", port.active_width);
    files->add(dir + "active_speed", port.active_speed);
    files->add(dir + "active_mtu", port.active_mtu);
  }
}

}  // namespace

std::vector<SysfsDevice> list_sysfs_devices(const std::string& root) {
  std::error_code error;
  auto entries = std::filesystem::directory_iterator(root + "/ubcore", error);
  if (error) entries = std::filesystem::directory_iterator(root + "/uburma", error);
  std::vector<SysfsDevice> devices;
  // An error ends the list, like a directory that vanished.
  for (; !error && entries != std::filesystem::directory_iterator(); entries.increment(error)) {
    const auto path = entries->path().string();
    SysfsDevice device{};
    device.path = path;
    device.name = read_text(path, "ubdev");
    device.driver_name = read_text(path, "driver_name");
    if (device.name.empty()) device.name = entries->path().filename();
    if (device.name.size() >= URMA_MAX_DEV_NAME || path.size() >= URMA_MAX_PATH) continue;
    device.type = static_cast<urma_transport_type_t>(read_number(path, "transport_type"));
    device.vendor_id = static_cast<uint16_t>(read_number(path, "device/vendor"));
    device.device_id = static_cast<uint16_t>(read_number(path, "device/device"));
    devices.push_back(std::move(device));
  }
  std::sort(devices.begin(), devices.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  return devices;
}

urma_device_attr_t read_sysfs_attr(const std::string& path) {
  urma_device_attr_t attr;
  // memset, not an initialiser: attributes are compared as bytes, padding included.
  std::memset(&attr, 0, sizeof attr);
  for (const auto& file : kAttrFiles) {
    const uint64_t value = read_number(path, file.name);
    std::memcpy(reinterpret_cast<char*>(&attr.dev_cap) + file.offset, &value, file.size);
  }
  ::inet_pton(AF_INET6, read_text(path, "guid").c_str(), attr.guid.raw);
  read_ports(path, &attr);
  read_priorities(path, &attr.dev_cap);
  const auto reserved = read_text(path, "reserved_jetty_id");
  if (std::sscanf(reserved.c_str(), "%u-%u", &attr.reserved_jetty_id_min,
                  &attr.reserved_jetty_id_max) != 2) {
    attr.reserved_jetty_id_min = attr.reserved_jetty_id_max = UINT32_MAX;
  }
  return attr;
}

std::vector<AttributeFile> sysfs_files(const std::string& name, const std::string& driver,
                                       urma_transport_type_t type, const urma_device_attr_t& attr,
                                       const std::vector<urma_eid_info_t>& eids,
                                       bool ports_writable) {
  FileList files;
  files.add("ubdev", name);
  files.add("driver_name", driver);
  files.add("transport_type", static_cast<uint64_t>(type));
  files.add("guid", address_text(attr.guid.raw));
  for (const auto& file : kAttrFiles) {
    uint64_t value = 0;
    std::memcpy(&value, reinterpret_cast<const char*>(&attr.dev_cap) + file.offset, file.size);
    files.add(file.name, value);
  }
  files.add("reserved_jetty_id",
            urma::format("{}-{}", attr.reserved_jetty_id_min, attr.reserved_jetty_id_max));
  add_ports(attr, ports_writable, &files);
  for (int i = 0; i < URMA_MAX_PRIORITY_CNT; ++i) {
    const auto dir = urma::format("priority/priority{}/", i);
    files.add(dir + "sl", attr.dev_cap.priority_info[i].SL);
    files.add(dir + "tp_type", attr.dev_cap.priority_info[i].tp_type.value);
  }
  for (const auto& info : eids) {
    files.add(urma::format("eids/eid{}", info.eid_index), address_text(info.eid.raw));
  }
  return files.take();
}

std::vector<urma_eid_info_t> read_sysfs_eids(const std::string& path, uint32_t max_eid_cnt) {
  std::vector<urma_eid_info_t> eids;
  for (uint32_t i = 0; i < std::min<uint32_t>(max_eid_cnt, URMA_MAX_EID_CNT); ++i) {
    auto text = read_text(path + "/eids", urma::format("eid{}", i));
    if (text.empty()) text = read_text(urma::format("{}/eid{}", path, i), "eid");
    urma_eid_info_t info{};
    if (::inet_pton(AF_INET6, text.c_str(), info.eid.raw) != 1 || is_zero(info.eid.raw)) continue;
    info.eid_index = i;
    eids.push_back(info);
  }
  return eids;
}

}  // namespace urma::core
