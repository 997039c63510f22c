/* SPDX-License-Identifier: MIT */

#include "ofi/eq.h"

#include <poll.h>
#include <rdma/fi_cm.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "ofi/endpoint.h"
#include "ofi/fabric.h"
#include "ofi/log.h"
#include "ofi/passive.h"
#include "ofi/random.h"
#include "ofi/settings.h"

namespace urma_fi {
namespace {

constexpr size_t kMaxEvents = 4096;  // beyond it, connection requests are rejected

void turn_away(CmPort& port, const Address& from, uint64_t number) {
  port.send(from, make_message(CmKind::kReject, number, 0, 0, nullptr, 0));
}

}  // namespace

fi_ops Eq::fid_ops_ = {sizeof(fi_ops), Eq::close, refuse, Eq::control, refuse, refuse, refuse};
fi_ops_eq Eq::eq_ops_ = {sizeof(fi_ops_eq), Eq::read, Eq::read_error,
                         Eq::write,         Eq::wait, Eq::text};

int Eq::open(fid_fabric* fabric, fi_eq_attr* attr, fid_eq** eq, void* context) {
  std::unique_ptr<Eq> made(new Eq(static_cast<Fabric*>(fabric)));
  made->fid = {FI_CLASS_EQ, context, &fid_ops_};
  made->ops = &eq_ops_;
  const int error = made->make(*attr);
  if (error != 0) return error;
  made->fabric_->users.take();
  *eq = made.release();
  return 0;
}

int Eq::make(const fi_eq_attr& attr) {
  if (attr.wait_obj == FI_WAIT_SET || attr.wait_obj == FI_WAIT_MUTEX_COND ||
      attr.wait_obj == FI_WAIT_POLLFD) {
    URMA_FI_WARN(FI_LOG_EQ, "wait object %d of an event queue is not supported; use FI_WAIT_FD\n",
                 attr.wait_obj);
    return -FI_ENOSYS;
  }
  epoll_ = epoll_create1(EPOLL_CLOEXEC);
  wakeup_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  timer_ = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
  if (epoll_ < 0 || wakeup_ < 0 || timer_ < 0) return -errno;
  const int error = watch(wakeup_);
  return error != 0 ? error : watch(timer_);
}

Eq::~Eq() {
  for (Event& event : events_) {
    if (event.info != nullptr) end_request(event.info->handle);
    fi_freeinfo(event.info);
  }
  if (timer_ >= 0) ::close(timer_);
  if (wakeup_ >= 0) ::close(wakeup_);
  if (epoll_ >= 0) ::close(epoll_);
}

int Eq::close(fid_t head) {
  Eq* eq = object_of<Eq, fid_eq>(head);
  if (eq->users.in_use()) return -FI_EBUSY;
  eq->fabric_->users.drop();
  delete eq;
  return 0;
}

int Eq::watch(int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  return epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) == 0 || errno == EEXIST ? 0 : -errno;
}

void Eq::unwatch(int fd) { epoll_ctl(epoll_, EPOLL_CTL_DEL, fd, nullptr); }

int Eq::control(fid_t head, int command, void* argument) {
  if (command != FI_GETWAIT) return -FI_ENOSYS;
  *static_cast<int*>(argument) = object_of<Eq, fid_eq>(head)->epoll_;
  return 0;
}

int Eq::listen(Passive* passive, std::unique_ptr<CmPort> port) {
  std::lock_guard lock(mutex_);
  const int error = watch(port->fd());
  if (error != 0) return error;
  listening_.push_back({passive, std::move(port)});
  return 0;
}

void Eq::stop(Passive* passive) {
  std::unique_ptr<CmPort> port;  // waits for its messages once the mutex is free
  std::lock_guard lock(mutex_);
  const auto found = std::find_if(listening_.begin(), listening_.end(),
                                  [&](const Listening& one) { return one.passive == passive; });
  if (found == listening_.end()) return;
  // Requests that still wait get an answer.
  found->port->poll(*this);
  std::erase_if(events_, [&](Event& event) {
    if (event.fid != &passive->fid) return false;
    if (event.info != nullptr) {
      const std::optional<Request> request = find_request(event.info->handle);
      if (request.has_value()) turn_away(*found->port, request->from, request->number);
      end_request(event.info->handle);
      fi_freeinfo(event.info);
    }
    return true;
  });
  port = std::move(found->port);
  unwatch(port->fd());
  listening_.erase(found);
}

CmPort* Eq::port_of(const Device* device) {
  for (const std::unique_ptr<CmPort>& port : ports_)
    if (port->device().get() == device) return port.get();
  return nullptr;
}

uint64_t Eq::enroll(Endpoint* endpoint, const std::shared_ptr<Device>& device, int* error) {
  std::lock_guard lock(mutex_);
  if (port_of(device.get()) == nullptr) {
    std::unique_ptr<CmPort> port = CmPort::open(device, 0, error);
    if (port == nullptr) return 0;
    if ((*error = watch(port->fd())) != 0 || (*error = watch(device->event_fd())) != 0) return 0;
    ports_.push_back(std::move(port));
    devices_.push_back(device);
  }
  uint64_t number;
  do number = random_number();
  while (number == 0 || endpoints_.contains(number));
  endpoints_[number] = endpoint;
  return number;
}

void Eq::forget(Endpoint* endpoint) {
  std::lock_guard lock(mutex_);
  std::erase_if(endpoints_, [&](const auto& entry) { return entry.second == endpoint; });
  std::erase_if(events_, [&](const Event& event) { return event.fid == &endpoint->fid; });
}

int Eq::send(const Device* device, const Address& to, const CmMessage& message) {
  return port_of(device)->send(to, message);
}

void Eq::expect_answer(Endpoint* endpoint) {
  endpoint->patience_ends = Clock::now() + connect_timeout();
  // Later ones end later: the timer moves on to them.
  if (!timing_) ring_at(endpoint->patience_ends);
}

void Eq::ring_at(Clock::time_point when) {
  using std::chrono::nanoseconds;
  const auto left = std::max<nanoseconds>(when - Clock::now(), nanoseconds(1));
  itimerspec once{};
  once.it_value.tv_sec = left.count() / std::nano::den;
  once.it_value.tv_nsec = left.count() % std::nano::den;
  timing_ = timerfd_settime(timer_, 0, &once, nullptr) == 0;
}

void Eq::end_patience() {
  uint64_t count;
  if (::read(timer_, &count, sizeof(count)) != sizeof(count)) return;
  timing_ = false;
  const Clock::time_point now = Clock::now();
  Clock::time_point next = Clock::time_point::max();
  for (const auto& [number, endpoint] : endpoints_) {
    if (endpoint->state != State::kConnecting) continue;
    if (endpoint->patience_ends > now) {
      next = std::min(next, endpoint->patience_ends);
      continue;
    }
    URMA_FI_WARN(FI_LOG_EP_CTRL, "%s has not answered in time: see FI_URMA_CONNECT_TIMEOUT\n",
                 to_text(endpoint->peer).c_str());
    push_failure(endpoint, FI_ETIMEDOUT, 0, nullptr, 0);
  }
  if (next != Clock::time_point::max()) ring_at(next);
}

int Eq::reject(const Passive* passive, const Address& to, const CmMessage& message) {
  std::lock_guard lock(mutex_);
  for (const Listening& listening : listening_)
    if (listening.passive == passive) return listening.port->send(to, message);
  return -FI_EINVAL;
}

void Eq::push(Event event) {
  events_.push_back(std::move(event));
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wakeup_, &one, sizeof(one));
}

void Eq::push_connected(Endpoint* endpoint, const CmMessage& message) {
  Event event;
  event.type = FI_CONNECTED;
  event.fid = &endpoint->fid;
  event.data.assign(message.data, message.data + message.data_size);
  push(std::move(event));
}

void Eq::push_failure(Endpoint* endpoint, int error, int status, const uint8_t* data, size_t size) {
  endpoint->state = State::kShut;
  Event event;
  event.fid = &endpoint->fid;
  event.data.assign(data, data + size);
  event.error.fid = &endpoint->fid;
  event.error.context = endpoint->fid.context;
  event.error.err = error;
  event.error.prov_errno = status;
  push(std::move(event));
}

void Eq::lost(Endpoint* endpoint) {
  std::lock_guard lock(mutex_);
  shut(endpoint);
}

void Eq::shut(Endpoint* endpoint) {
  if (endpoint->state != State::kConnected && endpoint->state != State::kAccepting) return;
  endpoint->state = State::kShut;
  Event event;
  event.type = FI_SHUTDOWN;
  event.fid = &endpoint->fid;
  push(std::move(event));
}

void Eq::on_request(CmPort& port, const Address& from, const CmMessage& message) {
  const auto found = std::find_if(listening_.begin(), listening_.end(),
                                  [&](const Listening& one) { return one.port.get() == &port; });
  const bool taken = found != listening_.end() && events_.size() < kMaxEvents;
  fi_info* info = taken ? found->passive->request_info(from, message) : nullptr;
  if (info == nullptr) return turn_away(port, from, message.from);
  Event event;
  event.type = FI_CONNREQ;
  event.fid = &found->passive->fid;
  event.info = info;
  event.data.assign(message.data, message.data + message.data_size);
  push(std::move(event));
}

void Eq::on_accept(Endpoint* endpoint, const Address& from, const CmMessage& message) {
  endpoint->peer = from;
  endpoint->peer_number = message.from;
  int error = endpoint->join(message.jetty);
  if (error == 0) {
    const CmMessage ready =
        make_message(CmKind::kReady, message.from, endpoint->number, 0, nullptr, 0);
    error = send(endpoint->device(), from, ready);
  }
  if (error != 0) {
    send(endpoint->device(), from, make_shutdown(message.from, endpoint->number));
    endpoint->part();
    return push_failure(endpoint, -error, 0, nullptr, 0);
  }
  endpoint->state = State::kConnected;
  push_connected(endpoint, message);
}

void Eq::on_message(CmPort& port, const Address& from, const CmMessage& message) {
  if (message.kind == CmKind::kRequest) return on_request(port, from, message);
  const auto found = endpoints_.find(message.to);
  // Unknown: the endpoint is gone, or never existed.
  const bool known = found != endpoints_.end() && same_eid(found->second->peer.eid, from.eid);
  if (message.kind == CmKind::kAccept && (!known || found->second->state != State::kConnecting)) {
    port.send(from, make_shutdown(message.from, 0));
    return;
  }
  if (!known) return;
  Endpoint* endpoint = found->second;
  switch (message.kind) {
    case CmKind::kAccept:
      on_accept(endpoint, from, message);
      break;
    case CmKind::kReject:
      if (endpoint->state == State::kConnecting)
        push_failure(endpoint, FI_ECONNREFUSED, 0, message.data, message.data_size);
      break;
    case CmKind::kReady:
      if (endpoint->state != State::kAccepting) break;
      endpoint->state = State::kConnected;
      push_connected(endpoint, message);
      break;
    case CmKind::kShutdown:
      shut(endpoint);
      break;
    case CmKind::kRequest:
      break;
  }
}

void Eq::on_undelivered(const CmMessage& message, int error, int status) {
  const auto found = endpoints_.find(message.from);
  if (found == endpoints_.end()) return;
  Endpoint* endpoint = found->second;
  if (endpoint->state != State::kConnecting) return shut(endpoint);
  // Sparse: layers retry again and again.
  FI_WARN_SPARSE(&provider, FI_LOG_EP_CTRL,
                 "%s does not answer (%s): is a passive endpoint listening there?\n",
                 to_text(endpoint->peer).c_str(), fi_strerror(error));
  const bool refused = error == FI_ECONNRESET || error == FI_ENORX;
  push_failure(endpoint, refused ? FI_ECONNREFUSED : error, status, nullptr, 0);
}

void Eq::progress() {
  std::vector<std::shared_ptr<Device>> devices;
  {
    std::lock_guard lock(mutex_);
    for (const Listening& listening : listening_) listening.port->poll(*this);
    for (const std::unique_ptr<CmPort>& port : ports_) port->poll(*this);
    end_patience();
    devices = devices_;
  }
  for (const std::shared_ptr<Device>& device : devices) device->take_events();
}

int Eq::try_wait() {
  progress();
  std::lock_guard lock(mutex_);
  uint64_t count;
  [[maybe_unused]] const ssize_t taken = ::read(wakeup_, &count, sizeof(count));
  if (!events_.empty()) return -FI_EAGAIN;
  for (const Listening& listening : listening_) listening.port->arm();
  for (const std::unique_ptr<CmPort>& port : ports_) port->arm();
  return 0;
}

ssize_t Eq::take(uint32_t* type, void* buffer, size_t size, uint64_t flags) {
  std::lock_guard lock(mutex_);
  if (events_.empty()) return -FI_EAGAIN;
  Event& event = events_.front();
  if (event.error.err != 0) return -FI_EAVAIL;
  const bool raw = event.type_is_raw;
  const size_t head = raw ? event.data.size() : sizeof(fi_eq_cm_entry);
  if (size < head) return -FI_ETOOSMALL;
  size_t used = head;
  *type = event.type;
  if (raw) {
    std::memcpy(buffer, event.data.data(), head);
  } else {
    auto* entry = static_cast<fi_eq_cm_entry*>(buffer);
    entry->fid = event.fid;
    entry->info = event.info;
    const size_t data = std::min(size - head, event.data.size());
    if (data > 0) std::memcpy(entry->data, event.data.data(), data);
    used += data;
  }
  if ((flags & FI_PEEK) == 0) events_.pop_front();
  return static_cast<ssize_t>(used);
}

ssize_t Eq::read(fid_eq* eq, uint32_t* type, void* buffer, size_t size, uint64_t flags) {
  const ssize_t taken = of(eq)->take(type, buffer, size, flags);
  if (taken != -FI_EAGAIN) return taken;
  of(eq)->progress();
  return of(eq)->take(type, buffer, size, flags);
}

ssize_t Eq::read_error(fid_eq* eq, fi_eq_err_entry* entry, uint64_t flags) {
  Eq* self = of(eq);
  std::lock_guard lock(self->mutex_);
  if (self->events_.empty() || self->events_.front().error.err == 0) return -FI_EAGAIN;
  Event& event = self->events_.front();
  self->error_data_ = event.data;
  void* room = entry->err_data;
  const size_t room_size = entry->err_data_size;
  *entry = event.error;
  entry->err_data_size = self->error_data_.size();
  if (room != nullptr && room_size > 0) {
    entry->err_data = room;
    entry->err_data_size = std::min(room_size, self->error_data_.size());
    std::memcpy(room, self->error_data_.data(), entry->err_data_size);
  } else {
    entry->err_data = self->error_data_.data();
  }
  if ((flags & FI_PEEK) == 0) self->events_.pop_front();
  return sizeof(*entry);
}

ssize_t Eq::write(fid_eq* eq, uint32_t type, const void* buffer, size_t size, uint64_t) {
  const auto* bytes = static_cast<const uint8_t*>(buffer);
  std::lock_guard lock(of(eq)->mutex_);
  if (of(eq)->events_.size() >= kMaxEvents) return -FI_EAGAIN;
  Event event;
  event.type = type;
  event.type_is_raw = true;
  event.data.assign(bytes, bytes + size);
  of(eq)->push(std::move(event));
  return static_cast<ssize_t>(size);
}

ssize_t Eq::wait(fid_eq* eq, uint32_t* type, void* buffer, size_t size, int timeout,
                 uint64_t flags) {
  const Deadline deadline(timeout);
  while (true) {
    const ssize_t taken = read(eq, type, buffer, size, flags);
    if (taken != -FI_EAGAIN) return taken;
    if (of(eq)->try_wait() != 0) continue;
    if (!deadline.wait_for(of(eq)->epoll_)) return -FI_EAGAIN;
  }
}

const char* Eq::text(fid_eq*, int status, const void*, char* buffer, size_t size) {
  if (buffer != nullptr && size > 0) std::snprintf(buffer, size, "%s", completion_text(status));
  return completion_text(status);
}

}  // namespace urma_fi
