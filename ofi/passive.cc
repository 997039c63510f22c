/* SPDX-License-Identifier: MIT */

#include "ofi/passive.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <unordered_map>

#include "ofi/eq.h"
#include "ofi/fabric.h"
#include "ofi/info.h"
#include "ofi/log.h"

namespace urma_fi {
namespace {

struct Standing {
  fid head;
  Request request;
};

// By their handles: callers may still have those of answered requests.
std::mutex requests_mutex;
std::unordered_map<fid_t, std::unique_ptr<Standing>> requests;

fid_t add_request(const Address& from, const CmMessage& message) {
  auto made = std::make_unique<Standing>();
  const fid_t handle = &made->head;
  made->head.fclass = FI_CLASS_CONNREQ;
  made->request = {handle, from, message.from, message.jetty};
  std::lock_guard lock(requests_mutex);
  requests[handle] = std::move(made);
  return handle;
}

}  // namespace

fi_ops Passive::fid_ops_ = {sizeof(fi_ops), Passive::close, Passive::bind, Passive::control,
                            refuse,         refuse,         refuse};
fi_ops_ep Passive::ep_ops_ = {
    sizeof(fi_ops_ep), refuse, get_option, refuse, refuse, refuse, refuse, refuse};
fi_ops_cm Passive::cm_ops_ = {sizeof(fi_ops_cm),
                              Passive::set_name,
                              Passive::get_name,
                              refuse,
                              refuse,
                              Passive::listen,
                              refuse,
                              Passive::reject,
                              refuse,
                              refuse};

std::optional<Request> find_request(fid_t handle) {
  std::lock_guard lock(requests_mutex);
  const auto found = requests.find(handle);
  return found == requests.end() ? std::nullopt : std::optional(found->second->request);
}

void end_request(fid_t handle) {
  std::lock_guard lock(requests_mutex);
  requests.erase(handle);
}

int give_address(uint32_t format, const Address& address, void* room, size_t* size) {
  const std::vector<char> bytes = encode(format, address);
  const size_t fitting = std::min(*size, bytes.size());
  if (fitting > 0) std::memcpy(room, bytes.data(), fitting);
  *size = bytes.size();
  return fitting < bytes.size() ? -FI_ETOOSMALL : 0;
}

int get_option(fid_t, int level, int name, void* value, size_t* size) {
  if (level != FI_OPT_ENDPOINT || name != FI_OPT_CM_DATA_SIZE) return -FI_ENOPROTOOPT;
  if (*size < sizeof(size_t)) return -FI_ETOOSMALL;
  *static_cast<size_t*>(value) = kCmDataSize;
  *size = sizeof(size_t);
  return 0;
}

int Passive::open(fid_fabric* fabric, fi_info* info, fid_pep** pep, void* context) {
  std::unique_ptr<Passive> made(new Passive(static_cast<Fabric*>(fabric)));
  made->fid = {FI_CLASS_PEP, context, &fid_ops_};
  made->ops = &ep_ops_;
  made->cm = &cm_ops_;
  const int error = made->make(info);
  if (error != 0) return error;
  made->fabric_->users.take();
  *pep = made.release();
  return 0;
}

int Passive::make(const fi_info* info) {
  int error = 0;
  if ((error = open_device(info, &device_, &address_)) != 0) return error;
  info_ = fi_dupinfo(info);
  return info_ == nullptr ? -FI_ENOMEM : 0;
}

Passive::~Passive() { fi_freeinfo(info_); }

int Passive::close(fid_t head) {
  Passive* passive = object_of<Passive, fid_pep>(head);
  if (passive->eq_ != nullptr) {
    passive->eq_->stop(passive);
    passive->eq_->users.drop();
  }
  passive->fabric_->users.drop();
  delete passive;
  return 0;
}

int Passive::bind(fid_t head, fid_t other, uint64_t) {
  Passive* passive = object_of<Passive, fid_pep>(head);
  if (other->fclass != FI_CLASS_EQ || passive->eq_ != nullptr) return -FI_EINVAL;
  passive->eq_ = object_of<Eq, fid_eq>(other);
  passive->eq_->users.take();
  return 0;
}

// The backlog is that of an event queue.
int Passive::control(fid_t, int command, void*) { return command == FI_BACKLOG ? 0 : -FI_ENOSYS; }

int Passive::listen(fid_pep* pep) {
  auto* passive = static_cast<Passive*>(pep);
  if (passive->eq_ == nullptr) return -FI_ENOEQ;
  if (passive->listening_) return -FI_EINVAL;
  int error = 0;
  std::unique_ptr<CmPort> port = CmPort::open(passive->device_, passive->address_.id, &error);
  if (port == nullptr) return error;
  const Address address = port->address();
  if ((error = passive->eq_->listen(passive, std::move(port))) != 0) return error;
  passive->address_ = address;
  passive->listening_ = true;
  return 0;
}

int Passive::reject(fid_pep* pep, fid_t handle, const void* data, size_t size) {
  auto* passive = static_cast<Passive*>(pep);
  const std::optional<Request> request = find_request(handle);
  if (!request.has_value() || size > kCmDataSize || passive->eq_ == nullptr) return -FI_EINVAL;
  const CmMessage no = make_message(CmKind::kReject, request->number, 0, 0, data, size);
  const int error = passive->eq_->reject(passive, request->from, no);
  if (error == 0) end_request(handle);
  return error;
}

int Passive::set_name(fid_t head, void* bytes, size_t size) {
  Passive* passive = object_of<Passive, fid_pep>(head);
  Address address;
  if (passive->listening_ || !decode(passive->info_->addr_format, bytes, size, &address) ||
      !same_eid(address.eid, passive->address_.eid)) {
    return -FI_EINVAL;
  }
  passive->address_ = address;
  return 0;
}

int Passive::get_name(fid_t head, void* room, size_t* size) {
  const Passive* passive = object_of<Passive, fid_pep>(head);
  return give_address(passive->info_->addr_format, passive->address_, room, size);
}

fi_info* Passive::request_info(const Address& from, const CmMessage& message) const {
  fi_info* info = fi_dupinfo(info_);
  if (info == nullptr) return nullptr;
  set_address(&info->src_addr, &info->src_addrlen, info->addr_format, address_);
  set_address(&info->dest_addr, &info->dest_addrlen, info->addr_format, from);
  info->handle = add_request(from, message);
  return info;
}

}  // namespace urma_fi
