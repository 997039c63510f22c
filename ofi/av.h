/* SPDX-License-Identifier: MIT */

// Address vectors: the peers of endpoints for datagrams, by number.

#ifndef OFI_AV_H
#define OFI_AV_H

#include <rdma/fi_domain.h>

#include <vector>

#include "ofi/address.h"
#include "ofi/fid.h"

namespace urma_fi {

class Domain;

// An endpoint that sends to the addresses of a vector. Called with the lock of the domain.
class AddressUser {
 public:
  virtual void on_insert(fi_addr_t number, const Address& address) = 0;
  virtual void on_remove(fi_addr_t number) = 0;

 protected:
  ~AddressUser() = default;
};

// Inserting asks no peer: it is reached by the first message to it.
class Av final : public fid_av {
 public:
  static int open(fid_domain* domain, fi_av_attr* attr, fid_av** av, void* context);

  // With the lock of the domain. The user is told of all addresses, also of those inserted before.
  void join(AddressUser* user);
  void leave(AddressUser* user);

 private:
  struct Entry {
    Address address;
    bool used;
  };

  explicit Av(Domain* domain) : domain_(domain) {}
  fi_addr_t add(const Address& address);
  bool holds(fi_addr_t number) const { return number < entries_.size() && entries_[number].used; }

  static Av* of(fid_av* av) { return static_cast<Av*>(av); }
  static int close(fid_t head);
  static int bind(fid_t head, fid_t other, uint64_t flags);
  static int insert(fid_av* av, const void* addresses, size_t count, fi_addr_t* numbers,
                    uint64_t flags, void* context);
  static int insert_service(fid_av* av, const char* node, const char* service, fi_addr_t* number,
                            uint64_t flags, void* context);
  static int remove(fid_av* av, fi_addr_t* numbers, size_t count, uint64_t flags);
  static int look_up(fid_av* av, fi_addr_t number, void* room, size_t* size);
  static const char* to_string(fid_av* av, const void* address, char* room, size_t* size);

  static fi_ops fid_ops_;
  static fi_ops_av av_ops_;

  Domain* domain_;
  std::vector<Entry> entries_;
  std::vector<AddressUser*> users_;
};

}  // namespace urma_fi

#endif  // OFI_AV_H
