// SPDX-License-Identifier: MIT
#include "urma/base/held_name.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

#include "urma/base/error.h"
#include "urma/base/own_fd.h"

namespace urma {
namespace {

// The first byte stays 0: that is the abstract namespace.
class AbstractAddress {
 public:
  explicit AbstractAddress(const std::string& name)
      : length_(static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size())) {
    if (name.size() >= sizeof(address_.sun_path)) {
      fail(URMA_EINVAL, "the name {} is too long", name);
    }
    address_.sun_family = AF_UNIX;
    std::memcpy(address_.sun_path + 1, name.data(), name.size());
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address_); }
  socklen_t length() const { return length_; }

 private:
  sockaddr_un address_ = {};
  const socklen_t length_;
};

OwnFd make_socket() {
  OwnFd fd(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (!fd.valid()) fail_errno(URMA_ENOMEM, "making a socket that holds a name");
  return fd;
}

// Whether the call is allowed at all: without an address it ends a connection, and cannot fail.
bool may_connect(const OwnFd& fd) {
  const sockaddr nowhere = {AF_UNSPEC, {}};
  return ::connect(fd.get(), &nowhere, sizeof(nowhere)) == 0;
}

}  // namespace

std::shared_ptr<void> hold_name(const std::string& name) {
  const AbstractAddress address(name);
  auto fd = std::make_shared<OwnFd>(make_socket());
  if (::bind(fd->get(), address.get(), address.length()) == 0) return fd;
  if (errno == EADDRINUSE) return nullptr;
  fail_errno(URMA_FAIL, urma::format("holding the name {}", name));
}

bool is_name_held(const std::string& name) {
  const AbstractAddress address(name);
  const OwnFd fd = make_socket();
  if (::connect(fd.get(), address.get(), address.length()) == 0) return true;
  if (errno == ECONNREFUSED) return false;
  if (errno == EPERM || errno == EACCES) {
    // A socket connected elsewhere holds it, or one of another security domain.
    if (may_connect(fd)) return true;
    fail(URMA_FAIL, "looking for the name {}: {}; allow connect() in seccomp filters", name,
         std::strerror(errno));
  }
  fail_errno(URMA_FAIL, urma::format("looking for the name {}", name));
}

}  // namespace urma
