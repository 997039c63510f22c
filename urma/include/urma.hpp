// SPDX-License-Identifier: MIT
//
// URMA for C++17 and newer: handles that end what they own, and ranges over what calls list.
// Objects are made, used and queried by the functions of urma_api.h, whose pages document them; a
// handle can be passed wherever its pointer is expected.
//
//   urma::Library library;
//   urma::Context context(urma_create_context(device, 0));
//   urma::Jfc jfc(urma_create_jfc(context, &cfg));
//   for (const urma_cr_t& record : urma::Completions<16>(jfc)) handle(record);
//
// End objects in reverse order: declare handles as members or locals in the order in which they are
// made. Failure is the only exception; a completion with an error throws only when its status is
// checked.
#ifndef URMA_HPP
#define URMA_HPP

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "urma_api.h"
#include "urma_ext.h"
#include "urma_types_str.h"

namespace urma {

// A call or a request has failed; what() names it. The log line says more.
class Failure : public std::runtime_error {
 public:
  Failure(const std::string& what, int status)
      : std::runtime_error(what + ": " +
                           (status == URMA_FAIL ? "it failed" : std::strerror(status))),
        status_(status) {}
  // Of a completion: "write: remote access refused".
  Failure(const std::string& what, urma_cr_status_t status)
      : std::runtime_error(what + ": " + urma_cr_status_to_string(status)), status_(status) {}
  // A URMA status (an errno number or URMA_FAIL); of a completion, its urma_cr_status_t.
  int status() const noexcept { return status_; }

 private:
  int status_;
};

// Throws unless the status is URMA_SUCCESS: urma::check(urma_rearm_jfc(jfc, false), "rearm").
inline void check(urma_status_t status, const char* what) {
  if (status != URMA_SUCCESS) throw Failure(what, status);
}

// The same for a completion: urma::check(record.status, "write").
inline void check(urma_cr_status_t status, const char* what) {
  if (status != URMA_CR_SUCCESS) throw Failure(what, status);
}

// Owns one object, and ends it in the destructor. Can be moved, not copied.
template <typename Object, urma_status_t (*End)(Object*)>
class Handle {
 public:
  Handle() noexcept = default;

  // Takes the result of a call. Throws, with errno, if it is NULL.
  explicit Handle(Object* made) : object_(made) {
    if (made == nullptr) throw Failure("a call returned NULL", errno);
  }

  Handle(Handle&& other) noexcept : object_(other.release()) {}
  Handle& operator=(Handle&& other) noexcept {
    Handle before(std::move(*this));
    object_ = other.release();
    return *this;
  }

  // An object that others still use stays; the log names the reason.
  ~Handle() { end(); }

  // Ends the object now. Keeps it if that fails.
  urma_status_t end() noexcept {
    if (object_ == nullptr) return URMA_SUCCESS;
    const urma_status_t status = End(object_);
    if (status == URMA_SUCCESS) object_ = nullptr;
    return status;
  }

  // Gives the object up, without ending it.
  Object* release() noexcept { return std::exchange(object_, nullptr); }

  Object* get() const noexcept { return object_; }
  Object* operator->() const noexcept { return object_; }
  // NOLINTNEXTLINE(google-explicit-constructor): the C functions take pointers.
  operator Object*() const noexcept { return object_; }

 private:
  Object* object_ = nullptr;
};

using Context = Handle<urma_context_t, urma_delete_context>;
using Jfce = Handle<urma_jfce_t, urma_delete_jfce>;
using Jfc = Handle<urma_jfc_t, urma_delete_jfc>;
using Jfs = Handle<urma_jfs_t, urma_delete_jfs>;
using Jfr = Handle<urma_jfr_t, urma_delete_jfr>;
using Jetty = Handle<urma_jetty_t, urma_delete_jetty>;
using JettyGroup = Handle<urma_jetty_grp_t, urma_delete_jetty_grp>;
using Notifier = Handle<urma_notifier_t, urma_delete_notifier>;
using TokenId = Handle<urma_token_id_t, urma_free_token_id>;
using Segment = Handle<urma_target_seg_t, urma_unregister_seg>;
// What imports return: the memory, the jetty or the JFR of a peer.
using RemoteSegment = Handle<urma_target_seg_t, urma_unimport_seg>;
using RemoteJetty = Handle<urma_target_jetty_t, urma_unimport_jetty>;
using RemoteJfr = Handle<urma_target_jetty_t, urma_unimport_jfr>;
// What urma_ext_alloc returns.
using Memory = Handle<void, urma_ext_free>;

// The library, from urma_init to urma_uninit.
class Library {
 public:
  explicit Library(urma_init_attr_t* attr = nullptr) { check(urma_init(attr), "urma_init"); }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  ~Library() { urma_uninit(); }
};

// A list that a call returned, freed by the destructor. May be empty.
template <typename Element, void (*Free)(Element*)>
class List {
 public:
  List(Element* list, std::size_t size) : list_(list), size_(list == nullptr ? 0 : size) {}

  const Element* begin() const noexcept { return list_.get(); }
  const Element* end() const noexcept { return list_.get() + size_; }
  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  const Element& operator[](std::size_t i) const noexcept { return list_.get()[i]; }

 private:
  struct Freer {
    void operator()(Element* list) const noexcept { Free(list); }
  };

  std::unique_ptr<Element, Freer> list_;
  std::size_t size_;
};

using DeviceList = List<urma_device_t*, urma_free_device_list>;
using EidList = List<urma_eid_info_t, urma_free_eid_list>;

// All devices, as urma_get_device_list returns them; they outlive the list.
inline DeviceList devices() {
  int count = 0;
  urma_device_t** list = urma_get_device_list(&count);
  return {list, static_cast<std::size_t>(count)};
}

// The EIDs of a device, as urma_get_eid_list returns them.
inline EidList eids(urma_device_t* device) {
  std::uint32_t count = 0;
  urma_eid_info_t* list = urma_get_eid_list(device, &count);
  return {list, count};
}

// The records of one poll, at most Most. Empty if nothing has completed yet.
template <std::size_t Most>
class Completions {
 public:
  explicit Completions(urma_jfc_t* jfc) : size_(urma_poll_jfc(jfc, Most, records_)) {
    if (size_ < 0) throw Failure("urma_poll_jfc", URMA_FAIL);
  }

  const urma_cr_t* begin() const noexcept { return records_; }
  const urma_cr_t* end() const noexcept { return records_ + size_; }
  std::size_t size() const noexcept { return static_cast<std::size_t>(size_); }
  bool empty() const noexcept { return size_ == 0; }

 private:
  urma_cr_t records_[Most];
  int size_;
};

// The JFCs that raised an event, at most Most, as urma_wait_jfc returns them; acknowledged by the
// destructor. Empty after a timeout.
template <std::size_t Most>
class Events {
 public:
  explicit Events(urma_jfce_t* jfce, int timeout_ms = -1)
      : size_(urma_wait_jfc(jfce, Most, timeout_ms, jfcs_)) {
    if (size_ < 0) throw Failure("urma_wait_jfc", errno);
  }
  Events(const Events&) = delete;
  Events& operator=(const Events&) = delete;
  ~Events() {
    for (int i = 0; i < size_; ++i) {
      std::uint32_t one = 1;
      urma_ack_jfc(&jfcs_[i], &one, 1);
    }
  }

  urma_jfc_t* const* begin() const noexcept { return jfcs_; }
  urma_jfc_t* const* end() const noexcept { return jfcs_ + size_; }
  std::size_t size() const noexcept { return static_cast<std::size_t>(size_); }
  bool empty() const noexcept { return size_ == 0; }

 private:
  urma_jfc_t* jfcs_[Most];
  int size_;
};

// The next asynchronous event of a context, acknowledged by the destructor. Waits for one, unless
// the program has made context->async_fd non-blocking; then it is false if there is none.
class AsyncEvent {
 public:
  explicit AsyncEvent(urma_context_t* context)
      : there_(urma_get_async_event(context, &event_) == URMA_SUCCESS) {}
  AsyncEvent(const AsyncEvent&) = delete;
  AsyncEvent& operator=(const AsyncEvent&) = delete;
  ~AsyncEvent() {
    if (there_) urma_ack_async_event(&event_);
  }

  explicit operator bool() const noexcept { return there_; }
  const urma_async_event_t* operator->() const noexcept { return &event_; }

 private:
  urma_async_event_t event_{};
  bool there_;
};

}  // namespace urma

#endif  // URMA_HPP
