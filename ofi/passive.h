/* SPDX-License-Identifier: MIT */

// Passive endpoints, and the requests for a connection that come to them.

#ifndef OFI_PASSIVE_H
#define OFI_PASSIVE_H

#include <rdma/fi_cm.h>
#include <rdma/fi_endpoint.h>

#include <memory>
#include <optional>

#include "ofi/cm_message.h"
#include "ofi/device.h"
#include "ofi/fid.h"

namespace urma_fi {

class Eq;
class Fabric;

// A request for a connection, which stands until it is answered.
struct Request {
  fid_t handle;  // fi_info.handle of its FI_CONNREQ event
  Address from;
  uint64_t number;  // of the endpoint that asks
  uint32_t jetty;
};

// The request of `handle`, if that is one and it still stands.
std::optional<Request> find_request(fid_t handle);
void end_request(fid_t handle);

class Passive final : public fid_pep {
 public:
  static int open(fid_fabric* fabric, fi_info* info, fid_pep** pep, void* context);
  ~Passive();

  // The fi_info for the endpoint that is to answer `message`, with the handle of a Request. NULL:
  // out of memory.
  fi_info* request_info(const Address& from, const CmMessage& message) const;

 private:
  explicit Passive(Fabric* fabric) : fabric_(fabric) {}
  int make(const fi_info* info);

  static int close(fid_t head);
  static int bind(fid_t head, fid_t other, uint64_t flags);
  static int control(fid_t head, int command, void* argument);
  static int listen(fid_pep* pep);
  static int reject(fid_pep* pep, fid_t handle, const void* data, size_t size);
  static int set_name(fid_t fid, void* address, size_t size);
  static int get_name(fid_t fid, void* address, size_t* size);

  static fi_ops fid_ops_;
  static fi_ops_ep ep_ops_;
  static fi_ops_cm cm_ops_;

  Fabric* fabric_;
  Eq* eq_ = nullptr;
  fi_info* info_ = nullptr;
  std::shared_ptr<Device> device_;
  Address address_;  // with its id, once it listens
  bool listening_ = false;
};

// Copies an address to the caller; -FI_ETOOSMALL if it does not fit, and *size is the size needed.
int give_address(uint32_t format, const Address& address, void* room, size_t* size);

// fi_getopt of endpoints that connect. FI_OPT_CM_DATA_SIZE is the only option.
int get_option(fid_t fid, int level, int name, void* value, size_t* size);

}  // namespace urma_fi

#endif  // OFI_PASSIVE_H
