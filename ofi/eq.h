/* SPDX-License-Identifier: MIT */

// Event queues. They carry the connection messages of the endpoints bound to them.

#ifndef OFI_EQ_H
#define OFI_EQ_H

#include <rdma/fi_eq.h>

#include <deque>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "ofi/cm_port.h"
#include "ofi/deadline.h"
#include "ofi/fid.h"

namespace urma_fi {

class Endpoint;
class Fabric;
class Passive;

class Eq final : public fid_eq, private CmSink {
 public:
  static int open(fid_fabric* fabric, fi_eq_attr* attr, fid_eq** eq, void* context);
  ~Eq();

  Needed users;

  // A passive endpoint starts, or stops, listening here.
  int listen(Passive* passive, std::unique_ptr<CmPort> port);
  void stop(Passive* passive);

  // Gives `endpoint` a number, by which its peer calls it; forget removes it and its events.
  uint64_t enroll(Endpoint* endpoint, const std::shared_ptr<Device>& device, int* error);
  void forget(Endpoint* endpoint);

  // Guards the state of enrolled endpoints.
  std::mutex& mutex() { return mutex_; }

  // Sends through the port of `device`, which enroll made. The caller holds mutex().
  int send(const Device* device, const Address& to, const CmMessage& message);

  // Sends through the port at which `passive` listens.
  int reject(const Passive* passive, const Address& to, const CmMessage& message);

  // `endpoint` has sent a request, which fails without an answer in time. The caller holds mutex().
  void expect_answer(Endpoint* endpoint);

  // Queues FI_SHUTDOWN for `endpoint`, unless it is forgotten or already has one.
  void lost(Endpoint* endpoint);

  // Sends and receives what can be; events wait until they are read.
  void progress();

  // -FI_EAGAIN if events wait, else lets wait_fd() become readable with the next one.
  int try_wait();
  int wait_fd() const { return epoll_; }

 private:
  struct Event {
    uint32_t type = 0;
    fid_t fid = nullptr;
    fi_info* info = nullptr;  // of FI_CONNREQ
    std::vector<uint8_t> data;
    bool type_is_raw = false;  // of fi_eq_write: data is all of it
    fi_eq_err_entry error{};   // valid if its err is not 0
  };
  struct Listening {
    Passive* passive;
    std::unique_ptr<CmPort> port;
  };
  explicit Eq(Fabric* fabric) : fabric_(fabric) {}
  int make(const fi_eq_attr& attr);
  int watch(int fd);
  void unwatch(int fd);
  void push(Event event);
  void ring_at(Clock::time_point when);
  void end_patience();
  CmPort* port_of(const Device* device);

  void shut(Endpoint* endpoint);
  void on_message(CmPort& port, const Address& from, const CmMessage& message) override;
  void on_undelivered(const CmMessage& message, int error, int status) override;
  void on_request(CmPort& port, const Address& from, const CmMessage& message);
  void on_accept(Endpoint* endpoint, const Address& from, const CmMessage& message);
  void push_connected(Endpoint* endpoint, const CmMessage& message);
  void push_failure(Endpoint* endpoint, int error, int status, const uint8_t* data, size_t size);
  ssize_t take(uint32_t* type, void* buffer, size_t size, uint64_t flags);

  static Eq* of(fid_eq* eq) { return static_cast<Eq*>(eq); }
  static int close(fid_t head);
  static int control(fid_t head, int command, void* argument);
  static ssize_t read(fid_eq* eq, uint32_t* type, void* buffer, size_t size, uint64_t flags);
  static ssize_t read_error(fid_eq* eq, fi_eq_err_entry* entry, uint64_t flags);
  static ssize_t write(fid_eq* eq, uint32_t type, const void* buffer, size_t size, uint64_t flags);
  static ssize_t wait(fid_eq* eq, uint32_t* type, void* buffer, size_t size, int timeout,
                      uint64_t flags);
  static const char* text(fid_eq* eq, int status, const void* data, char* buffer, size_t size);

  static fi_ops fid_ops_;
  static fi_ops_eq eq_ops_;

  Fabric* fabric_;
  int epoll_ = -1;
  int wakeup_ = -1;   // an eventfd: another thread has queued an event
  int timer_ = -1;    // a timerfd: the earliest deadline of an answer
  std::mutex mutex_;  // guards what follows
  bool timing_ = false;
  std::vector<Listening> listening_;
  std::vector<std::unique_ptr<CmPort>> ports_;  // one for each device, for endpoints
  std::vector<std::shared_ptr<Device>> devices_;
  std::unordered_map<uint64_t, Endpoint*> endpoints_;
  std::deque<Event> events_;
  std::vector<uint8_t> error_data_;  // of the last error read
};

}  // namespace urma_fi

#endif  // OFI_EQ_H
