/* SPDX-License-Identifier: MIT */

#include "ofi/av.h"

#include <netinet/in.h>
#include <rdma/fi_errno.h>

#include <algorithm>
#include <cstring>
#include <mutex>

#include "ofi/domain.h"
#include "ofi/log.h"
#include "ofi/passive.h"

namespace urma_fi {
namespace {

// The addresses of one insertion. Strings either follow each other, as most callers of libfabric
// have them, or are elements of an array of pointers, as its manual says.
class Reader {
 public:
  Reader(uint32_t format, const void* addresses)
      : format_(format),
        next_(static_cast<const char*>(addresses)),
        pointers_(format == FI_ADDR_STR && std::strncmp(next_, "urma://", 7) != 0) {}

  bool read(Address* address) {
    const char* bytes = next_;
    if (pointers_) std::memcpy(&bytes, next_, sizeof(bytes));
    const size_t size = format_ == FI_ADDR_STR ? std::strlen(bytes) + 1 : sizeof(sockaddr_in6);
    next_ += pointers_ ? sizeof(bytes) : size;
    return decode(format_, bytes, size, address) && address->id != 0;
  }

 private:
  uint32_t format_;
  const char* next_;
  bool pointers_;
};

// Where FI_SYNC_ERR wants a status for each address; NULL without it.
int* statuses_of(uint64_t flags, void* context) {
  return (flags & FI_SYNC_ERR) != 0 ? static_cast<int*>(context) : nullptr;
}

}  // namespace

fi_ops Av::fid_ops_ = {sizeof(fi_ops), Av::close, Av::bind, refuse, refuse, refuse, refuse};
fi_ops_av Av::av_ops_ = {sizeof(fi_ops_av), Av::insert,  Av::insert_service, refuse,
                         Av::remove,        Av::look_up, Av::to_string,      refuse};

int Av::open(fid_domain* domain, fi_av_attr* attr, fid_av** av, void* context) {
  if (attr->name != nullptr || attr->rx_ctx_bits != 0 || (attr->flags & ~FI_SYMMETRIC) != 0) {
    URMA_FI_WARN(FI_LOG_AV,
                 "address vectors with a name, several receive contexts or flags %#llx are not "
                 "supported\n",
                 static_cast<unsigned long long>(attr->flags));
    return -FI_ENOSYS;
  }
  auto* made = new Av(static_cast<Domain*>(domain));
  made->fid = {FI_CLASS_AV, context, &fid_ops_};
  made->ops = &av_ops_;
  // Numbers count up from 0 in a map too.
  if (attr->type == FI_AV_UNSPEC) attr->type = FI_AV_TABLE;
  made->entries_.reserve(attr->count);
  made->domain_->users.take();
  *av = made;
  return 0;
}

int Av::close(fid_t head) {
  Av* av = object_of<Av, fid_av>(head);
  if (!av->users_.empty()) return -FI_EBUSY;
  av->domain_->users.drop();
  delete av;
  return 0;
}

int Av::bind(fid_t, fid_t other, uint64_t) {
  // Events would tell that an insertion has ended; it ends with the call.
  return other->fclass == FI_CLASS_EQ ? -FI_ENOSYS : -FI_EINVAL;
}

void Av::join(AddressUser* user) {
  users_.push_back(user);
  for (size_t i = 0; i < entries_.size(); i++)
    if (entries_[i].used) user->on_insert(i, entries_[i].address);
}

void Av::leave(AddressUser* user) { std::erase(users_, user); }

fi_addr_t Av::add(const Address& address) {
  const auto unused = std::find_if(entries_.begin(), entries_.end(),
                                   [](const Entry& entry) { return !entry.used; });
  const fi_addr_t number = static_cast<fi_addr_t>(unused - entries_.begin());
  if (unused == entries_.end()) entries_.emplace_back();
  entries_[number] = {address, true};
  for (AddressUser* user : users_) user->on_insert(number, address);
  return number;
}

int Av::insert(fid_av* av, const void* addresses, size_t count, fi_addr_t* numbers, uint64_t flags,
               void* context) {
  int* statuses = statuses_of(flags, context);
  std::lock_guard lock(of(av)->domain_->lock());
  Reader reader(of(av)->domain_->address_format(), addresses);
  int inserted = 0;
  for (size_t i = 0; i < count; i++) {
    Address address;
    const bool good = reader.read(&address);
    if (!good) URMA_FI_WARN(FI_LOG_AV, "address %zu of %zu is not a URMA address\n", i, count);
    const fi_addr_t number = good ? of(av)->add(address) : FI_ADDR_NOTAVAIL;
    if (numbers != nullptr) numbers[i] = number;
    if (statuses != nullptr) statuses[i] = good ? 0 : FI_EINVAL;
    inserted += good;
  }
  return inserted;
}

int Av::insert_service(fid_av* av, const char* node, const char* service, fi_addr_t* number,
                       uint64_t flags, void* context) {
  Address address;
  const bool good = node != nullptr && parse(node, &address) &&
                    (service == nullptr || parse_service(service, &address.id)) && address.id != 0;
  std::lock_guard lock(of(av)->domain_->lock());
  const fi_addr_t given = good ? of(av)->add(address) : FI_ADDR_NOTAVAIL;
  if (number != nullptr) *number = given;
  if (int* status = statuses_of(flags, context)) *status = good ? 0 : FI_EINVAL;
  return good ? 1 : -FI_EINVAL;
}

int Av::remove(fid_av* av, fi_addr_t* numbers, size_t count, uint64_t) {
  std::lock_guard lock(of(av)->domain_->lock());
  int error = 0;
  for (size_t i = 0; i < count; i++) {
    if (!of(av)->holds(numbers[i])) {
      error = -FI_EINVAL;
      continue;
    }
    of(av)->entries_[numbers[i]].used = false;
    for (AddressUser* user : of(av)->users_) user->on_remove(numbers[i]);
  }
  return error;
}

int Av::look_up(fid_av* av, fi_addr_t number, void* room, size_t* size) {
  std::lock_guard lock(of(av)->domain_->lock());
  if (!of(av)->holds(number)) return -FI_EINVAL;
  return give_address(of(av)->domain_->address_format(), of(av)->entries_[number].address, room,
                      size);
}

const char* Av::to_string(fid_av* av, const void* address, char* room, size_t* size) {
  const uint32_t format = of(av)->domain_->address_format();
  const auto* text = static_cast<const char*>(address);
  Address decoded;
  const size_t bytes = format == FI_ADDR_STR ? std::strlen(text) + 1 : sizeof(sockaddr_in6);
  const std::string result =
      decode(format, address, bytes, &decoded) ? to_text(decoded) : "not a URMA address";
  if (*size > 0) {
    const size_t copied = std::min(*size - 1, result.size());
    std::memcpy(room, result.data(), copied);
    room[copied] = 0;
  }
  *size = result.size() + 1;
  return room;
}

}  // namespace urma_fi
