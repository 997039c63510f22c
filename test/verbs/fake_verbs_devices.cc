// SPDX-License-Identifier: MIT
//
// The fake's devices, domains and memory.
#include <arpa/inet.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "test/verbs/fake_verbs_state.h"

namespace urma::verbs {
namespace {

constexpr uint64_t kPage = 4096;

void ip_bytes(const std::string& ip, uint8_t* raw) {
  std::memset(raw, 0, 16);
  if (::inet_pton(AF_INET6, ip.c_str(), raw) == 1) return;
  std::memset(raw + 10, 0xff, 2);
  ::inet_pton(AF_INET, ip.c_str(), raw + 12);
}

// Of the interface of an iWARP device.
void mac_bytes(uint32_t netdev, uint8_t* raw) {
  const uint8_t mac[6] = {2, 0, 0, 0, 0, static_cast<uint8_t>(netdev)};
  std::memcpy(raw, mac, sizeof(mac));
}

ibv_device** get_device_list(int* count) {
  FakeCall call("get_device_list");
  if (count != nullptr) *count = 0;
  const int error = call.error() != 0 ? call.error() : call->list_error;
  if (error != 0) return fake_null(error);
  auto** list = new ibv_device*[call->devices.size() + 1];
  int found = 0;
  for (const auto& device : call->devices) list[found++] = device.get();
  list[found] = nullptr;
  if (count != nullptr) *count = found;
  return list;
}

void free_device_list(ibv_device** list) { delete[] list; }

const char* get_device_name(ibv_device* device) { return device->name; }

ibv_context* open_device(ibv_device* device) {
  FakeCall call("open_device");
  auto* owner = static_cast<FakeDevice*>(device);
  const int error = call.error() != 0 ? call.error() : owner->open_error;
  if (error != 0) return fake_null(error);
  auto* context = new FakeContext{};
  context->device = device;
  context->owner = owner;
  context->async_fd = context->events.fd.get();
  owner->contexts.insert(context);
  ++call->objects;
  return context;
}

int close_device(ibv_context* base) {
  FakeCall call("close_device");
  auto* context = static_cast<FakeContext*>(base);
  if (call.error() != 0) return call.error();
  if (context->children != 0) return EBUSY;
  context->owner->contexts.erase(context);
  --call->objects;
  delete context;
  return 0;
}

int query_device_ex(ibv_context* context, ibv_device_attr_ex* attr) {
  FakeCall call("query_device_ex");
  if (call.error() != 0) return call.error();
  const auto& options = static_cast<FakeContext*>(context)->owner->options;
  *attr = {};
  auto& limits = attr->orig_attr;
  std::memcpy(&limits.node_guid, options.name.data(),
              std::min(options.name.size(), sizeof(limits.node_guid)));
  limits.max_mr_size = UINT64_MAX;
  limits.page_size_cap = kPage;
  limits.max_qp = 65536;
  limits.max_qp_wr = static_cast<int>(options.max_qp_wr);
  limits.max_sge = static_cast<int>(options.max_sge);
  limits.max_sge_rd = options.iwarp ? 1 : static_cast<int>(options.max_sge);
  limits.max_cq = 65536;
  limits.max_cqe = static_cast<int>(options.max_cqe);
  limits.max_mr = 65536;
  limits.max_pd = 1024;
  limits.max_qp_rd_atom = static_cast<int>(options.max_rd_atomic);
  limits.max_qp_init_rd_atom = static_cast<int>(options.max_rd_atomic);
  limits.atomic_cap = options.has_atomics && !options.iwarp ? IBV_ATOMIC_HCA : IBV_ATOMIC_NONE;
  limits.max_ah = options.iwarp ? 0 : 65536;
  if (options.has_srq) {
    limits.max_srq = 65536;
    limits.max_srq_wr = static_cast<int>(options.max_srq_wr);
    limits.max_srq_sge = static_cast<int>(options.max_sge);
  }
  limits.phys_port_cnt = options.ports;
  if (options.has_on_demand) {
    attr->odp_caps.general_caps = IBV_ODP_SUPPORT;
    attr->odp_caps.per_transport_caps.rc_odp_caps = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV |
                                                    IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ |
                                                    IBV_ODP_SUPPORT_ATOMIC;
  }
  return 0;
}

int query_port(ibv_context* context, uint8_t port, ibv_port_attr* attr) {
  FakeCall call("query_port");
  if (call.error() != 0) return call.error();
  const auto& options = static_cast<FakeContext*>(context)->owner->options;
  if (port == 0 || port > options.ports) return EINVAL;
  *attr = {};
  attr->state = options.port_state;
  attr->active_mtu = options.mtu;
  // As the software devices report it: nonsense for iWARP.
  attr->max_mtu = options.iwarp ? IBV_MTU_256 : IBV_MTU_4096;
  attr->gid_tbl_len = static_cast<int>(options.gids.size());
  attr->max_msg_sz = options.max_message;
  attr->pkey_tbl_len = 1;
  attr->lid = options.infiniband ? options.lid : 0;
  attr->active_width = 2;
  attr->active_speed = 32;
  attr->link_layer = options.infiniband ? IBV_LINK_LAYER_INFINIBAND : IBV_LINK_LAYER_ETHERNET;
  return 0;
}

ssize_t query_gid_table(ibv_context* context, ibv_gid_entry* entries, size_t max_entries) {
  FakeCall call("query_gid_table");
  if (call.error() != 0) return -call.error();
  const auto& device = *static_cast<FakeContext*>(context)->owner;
  const auto& options = device.options;
  size_t count = 0;
  for (uint32_t port = 1; port <= options.ports; ++port) {
    const size_t gids =
        options.iwarp ? std::min<size_t>(1, options.gids.size()) : options.gids.size();
    for (uint32_t i = 0; i < gids && count < max_entries; ++i) {
      ibv_gid_entry entry = {};
      entry.gid = fake_gid(device, i);
      entry.gid_index = i;
      entry.port_num = port;
      entry.gid_type = options.infiniband ? uint32_t{IBV_GID_TYPE_IB} : options.gids[i].type;
      entry.ndev_ifindex = options.tells_netdev ? options.gids[i].netdev : 0;
      entries[count++] = entry;
    }
  }
  return static_cast<ssize_t>(count);
}

int fork_init() { return FakeCall("fork_init").error(); }

std::vector<InterfaceAddress> interface_addresses() {
  FakeCall call("interface_addresses");
  std::vector<InterfaceAddress> addresses;
  for (const auto& device : call->devices) {
    for (const auto& gid : device->options.gids) {
      InterfaceAddress address = {};
      address.ifindex = gid.netdev;
      mac_bytes(gid.netdev, address.mac);
      ip_bytes(gid.ip, address.ip);
      addresses.push_back(address);
    }
  }
  return addresses;
}

ibv_pd* alloc_pd(ibv_context* context) {
  FakeCall call("alloc_pd");
  if (call.error() != 0) return fake_null(call.error());
  auto* pd = new FakePd{};
  pd->context = context;
  ++static_cast<FakeContext*>(context)->children;
  ++call->objects;
  return pd;
}

int dealloc_pd(ibv_pd* base) {
  FakeCall call("dealloc_pd");
  if (call.error() != 0) return call.error();
  auto* pd = static_cast<FakePd*>(base);
  if (pd->children != 0) return EBUSY;
  --static_cast<FakeContext*>(pd->context)->children;
  --call->objects;
  delete pd;
  return 0;
}

bool is_allowed(const FakeDeviceOptions& options, int access) {
  const bool remote = (access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) != 0;
  if (remote && (access & IBV_ACCESS_LOCAL_WRITE) == 0) return false;
  return (access & IBV_ACCESS_ON_DEMAND) == 0 || options.has_on_demand;
}

// What pinning would return.
int check_mapped(void* address, size_t length, int access) {
  const auto first = reinterpret_cast<uint64_t>(address) & ~(kPage - 1);
  const uint64_t end = reinterpret_cast<uint64_t>(address) + length;
  const int advice =
      (access & IBV_ACCESS_LOCAL_WRITE) != 0 ? MADV_POPULATE_WRITE : MADV_POPULATE_READ;
  return ::madvise(reinterpret_cast<void*>(first), end - first, advice) == 0 ? 0 : EFAULT;
}

uint64_t pages_of(const void* address, size_t length) {
  const auto first = reinterpret_cast<uint64_t>(address) & ~(kPage - 1);
  const uint64_t end = reinterpret_cast<uint64_t>(address) + length;
  return (end - first + kPage - 1) & ~(kPage - 1);
}

ibv_mr* make_region(FakeFabric* fabric, ibv_pd* pd, uint64_t iova, size_t length, char* base,
                    int access) {
  auto* mr = new FakeMr{};
  mr->context = pd->context;
  mr->pd = pd;
  mr->addr = reinterpret_cast<void*>(iova);
  mr->length = length;
  mr->iova = iova;
  mr->base = base;
  mr->access = access;
  // Never reused, and distinct if devices keep them distinct.
  mr->lkey = fabric->next_key++;
  const bool iwarp = static_cast<FakeContext*>(pd->context)->owner->options.iwarp;
  mr->rkey = iwarp ? mr->lkey : fabric->next_key++;
  fabric->local_keys[mr->lkey] = mr;
  fabric->remote_keys[mr->rkey] = mr;
  ++static_cast<FakePd*>(pd)->children;
  ++fabric->objects;
  return mr;
}

ibv_mr* reg_mr(ibv_pd* pd, void* address, size_t length, int access) {
  FakeCall call("reg_mr");
  if (call.error() != 0) return fake_null(call.error());
  if (!is_allowed(static_cast<FakeContext*>(pd->context)->owner->options, access)) {
    return fake_null(EINVAL);
  }
  const bool pinned = (access & IBV_ACCESS_ON_DEMAND) == 0 && length != 0;
  const uint64_t locked = pinned ? pages_of(address, length) : 0;
  if (call->locked_limit != 0 && call->locked_bytes + locked > call->locked_limit) {
    return fake_null(ENOMEM);
  }
  if (pinned && check_mapped(address, length, access) != 0) return fake_null(EFAULT);
  auto* mr =
      static_cast<FakeMr*>(make_region(&call.fabric(), pd, reinterpret_cast<uint64_t>(address),
                                       length, static_cast<char*>(address), access));
  mr->locked = locked;
  call->locked_bytes += locked;
  return mr;
}

int rereg_mr(ibv_mr* base, int flags, ibv_pd* /*pd*/, void* /*address*/, size_t /*length*/,
             int access) {
  FakeCall call("rereg_mr");
  if (call.error() != 0) return call.error();
  auto* mr = static_cast<FakeMr*>(base);
  const auto& options = static_cast<FakeContext*>(mr->context)->owner->options;
  // libibverbs only supports it for memory of the process.
  if (!options.has_rereg || mr->map_start != nullptr) return EOPNOTSUPP;
  if (flags != IBV_REREG_MR_CHANGE_ACCESS || !is_allowed(options, access)) return EINVAL;
  mr->access = access;
  return 0;
}

ibv_mr* reg_dmabuf_mr(ibv_pd* pd, uint64_t offset, size_t length, uint64_t iova, int fd,
                      int access) {
  FakeCall call("reg_dmabuf_mr");
  if (call.error() != 0) return fake_null(call.error());
  const auto& options = static_cast<FakeContext*>(pd->context)->owner->options;
  if (!options.has_dmabuf) return fake_null(EOPNOTSUPP);
  if (fd < 0) return fake_null(EBADF);
  if (!is_allowed(options, access) || (offset ^ iova) % kPage != 0) return fake_null(EINVAL);
  const uint64_t inside = offset % kPage;
  void* start = ::mmap(nullptr, length + inside, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                       static_cast<off_t>(offset - inside));
  if (start == MAP_FAILED) return fake_null(EINVAL);
  auto* mr = static_cast<FakeMr*>(
      make_region(&call.fabric(), pd, iova, length, static_cast<char*>(start) + inside, access));
  mr->map_start = static_cast<char*>(start);
  mr->map_bytes = length + inside;
  return mr;
}

int dereg_mr(ibv_mr* base) {
  FakeCall call("dereg_mr");
  if (call.error() != 0) return call.error();
  auto* mr = static_cast<FakeMr*>(base);
  call->local_keys.erase(mr->lkey);
  call->remote_keys.erase(mr->rkey);
  call->locked_bytes -= mr->locked;
  if (mr->map_start != nullptr) ::munmap(mr->map_start, mr->map_bytes);
  --static_cast<FakePd*>(mr->pd)->children;
  --call->objects;
  delete mr;
  return 0;
}

}  // namespace

ibv_gid fake_gid(const FakeDevice& device, uint32_t index) {
  ibv_gid gid = {};
  if (index >= device.options.gids.size()) return gid;
  if (device.options.iwarp) {
    mac_bytes(device.options.gids[index].netdev, gid.raw);
  } else {
    ip_bytes(device.options.gids[index].ip, gid.raw);
  }
  return gid;
}

void fill_fake_devices(Api* api) {
  api->get_device_list = get_device_list;
  api->free_device_list = free_device_list;
  api->get_device_name = get_device_name;
  api->open_device = open_device;
  api->close_device = close_device;
  api->query_device_ex = query_device_ex;
  api->query_port = query_port;
  api->query_gid_table = query_gid_table;
  api->fork_init = fork_init;
  api->interface_addresses = interface_addresses;
  api->alloc_pd = alloc_pd;
  api->dealloc_pd = dealloc_pd;
  api->reg_mr = reg_mr;
  api->reg_dmabuf_mr = reg_dmabuf_mr;
  api->rereg_mr = rereg_mr;
  api->dereg_mr = dereg_mr;
}

}  // namespace urma::verbs
