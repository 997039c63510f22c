// SPDX-License-Identifier: MIT
#include "urma/providers/shm/wakeup.h"

#include <sys/socket.h>

#include <cerrno>

#include "urma/base/error.h"

namespace urma::shm {
namespace {

// Of one peer; limits the descriptors that it can make this process hold.
constexpr size_t kMaxDoorbells = 128;

bool has_option(int socket, int option, int value) {
  int is = -1;
  socklen_t length = sizeof(is);
  return ::getsockopt(socket, SOL_SOCKET, option, &is, &length) == 0 && is == value;
}

template <typename GetName>
bool nameless(GetName get_name, int socket) {
  sockaddr_storage address = {};
  socklen_t length = sizeof(address);
  return get_name(socket, reinterpret_cast<sockaddr*>(&address), &length) == 0 &&
         length == sizeof(sa_family_t);
}

}  // namespace

Doorbell::Doorbell(Fd socket) : socket_(std::move(socket)) {
  const int fd = socket_.get();
  if (!has_option(fd, SO_DOMAIN, AF_UNIX) || !has_option(fd, SO_TYPE, SOCK_STREAM) ||
      !nameless(::getsockname, fd) || !nameless(::getpeername, fd)) {
    fail(URMA_FAIL, "a wake-up from a peer is not one end of a pair of sockets");
  }
}

bool Doorbell::push() const {
  const char byte = 0;
  return ::send(socket_.get(), &byte, sizeof(byte), MSG_DONTWAIT | MSG_NOSIGNAL) >= 0 ||
         errno == EPIPE || errno == ECONNRESET;
}

PeerRegion::PeerRegion(Fd fd, bool peer_has_barrier)
    : memory(SharedMemory::adopt(std::move(fd), SegmentTable::kSharedBytes, PeerMay::kRead)),
      fence(!enter_process_barrier() || !peer_has_barrier) {
  if (!memory.end_mapping()) fail(URMA_FAIL, "a peer can punch holes into its shared memory");
  memory.close_fd();
}

std::shared_ptr<const Wakeup> Wakeups::offer(EventChannel* channel, uint32_t jfc_id,
                                             WakeupOffer* offer) {
  *offer = {0, kNoBell, 0};
  if (channel == nullptr) return nullptr;
  auto known = ours_.find(channel);
  if (known == ours_.end()) known = ours_.emplace(channel, channel->make_wakeup()).first;
  *offer = {channel->key(), jfc_id % kBells, 0};
  return known->second;
}

RemoteBell Wakeups::accept(const WakeupOffer& offer, std::shared_ptr<const PeerRegion> region,
                           Fd fd) {
  if (offer.bell == kNoBell) return {};
  if (offer.bell >= kBells) fail(URMA_FAIL, "bell {} of a peer does not exist", offer.bell);
  // A channel that is used again has the same wake-up, except one that has gone meanwhile.
  std::erase_if(theirs_, [](const auto& entry) { return entry.second.expired(); });
  std::shared_ptr<const Doorbell> doorbell = theirs_[offer.channel].lock();
  if (doorbell == nullptr) {
    if (theirs_.size() > kMaxDoorbells) {
      fail(URMA_FAIL, "a peer has more than {} JFCEs; use fewer of them for more JFCs each",
           kMaxDoorbells);
    }
    if (!fd.valid()) fail(URMA_ENOMEM, "no descriptor arrived; raise RLIMIT_NOFILE");
    doorbell = std::make_shared<const Doorbell>(std::move(fd));
    theirs_[offer.channel] = doorbell;
  }
  return RemoteBell(std::move(region), offer.bell, std::move(doorbell));
}

void Wakeups::forget(EventChannel* channel) {
  const auto found = ours_.find(channel);
  if (found == ours_.end()) return;
  channel->drop_wakeup(found->second);
  ours_.erase(found);
}

void Wakeups::clear() {
  for (auto& [channel, wakeup] : ours_) channel->drop_wakeup(wakeup);
  ours_.clear();
}

}  // namespace urma::shm
