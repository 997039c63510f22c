// SPDX-License-Identifier: MIT
//
// What a measurement of the library needs: a device, queues connected to those of the other
// process, and memory that both can use.
#ifndef TOOLS_BENCH_SESSION_H_
#define TOOLS_BENCH_SESSION_H_

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>

#include "tools/bench/process.h"
#include "urma_api.h"

namespace bench {

// An object of the library, ended by `End` when it goes out of scope.
template <auto End>
struct Ender {
  template <typename T>
  void operator()(T* object) const {
    (void)End(object);
  }
};
template <typename T, auto End>
using Handle = std::unique_ptr<T, Ender<End>>;
using Segment = Handle<urma_target_seg_t, urma_unregister_seg>;
using Import = Handle<urma_target_seg_t, urma_unimport_seg>;
using Memory = std::unique_ptr<char, decltype(&::free)>;

// Throws a Failure if the call `what` failed.
void ok(urma_status_t status, const char* what);

// The device of any two hosts, and the one that joins it with shared memory.
inline constexpr char kNetwork[] = "urma_net0";
inline constexpr char kBonded[] = "bonding_dev_0";

// The library, started, with a context on the device of this name; NULL: the one that URMA_DEVICE
// names, else the first one.
class Device {
 public:
  explicit Device(const char* name = nullptr);
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  urma_context_t* context() const { return ctx_.get(); }

 private:
  struct Library {
    Library();
    ~Library();
    Library(const Library&) = delete;
    Library& operator=(const Library&) = delete;
  } library_;
  Handle<urma_context_t, urma_delete_context> ctx_;
};

// Private zeroed page-aligned memory, written to once.
Memory make_memory(size_t bytes);

// Registers memory so that other processes may read, write and count in it.
Segment register_memory(const Device& device, void* memory, size_t bytes);

// Imports a segment of register_memory.
Import import_segment(const Device& device, urma_seg_t seg, uint32_t mapping);

// The reason why an import is not fully reached by plain loads and stores; empty if it is.
std::string why_not_mapped(const urma_target_seg_t& import);

struct SessionOptions {
  urma_transport_mode_t mode = URMA_TM_RM;
  bool events = false;      // arrivals have an event channel
  bool lock_free = false;   // promises that one thread at a time uses a queue
  size_t bytes = 64 << 10;  // of memory at each side
  const char* device = nullptr;
  bool apart = false;  // the processes have different runtime directories
};

// A jetty, connected to that of the other process, which makes an equal Session.
class Session {
 public:
  static constexpr uint32_t kSendDepth = 64;
  static constexpr uint32_t kReceiveDepth = 512;

  Session(Channel& peer, const SessionOptions& options);

  urma_jetty_t* jetty() const { return jetty_.get(); }
  urma_target_jetty_t* target() const { return target_.get(); }
  urma_jfce_t* channel() const { return jfce_.get(); }
  urma_jfc_t* sent() const { return sent_.get(); }
  urma_jfc_t* arrived() const { return arrived_.get(); }

  // Pieces of this side's memory and of the other side's, at the same offset.
  char* at(size_t offset) const { return memory_.get() + offset; }
  urma_sge_t here(size_t offset, uint32_t len) const;
  urma_sge_t there(size_t offset, uint32_t len) const;
  std::string why_not_mapped() const { return bench::why_not_mapped(*remote_); }

  void post_receives(urma_jfr_wr_t* wr) const;

 private:
  struct Bond {
    urma_jetty_t* jetty = nullptr;
    ~Bond() {
      if (jetty != nullptr) (void)urma_unbind_jetty(jetty);
    }
  };

  void create_queues(const SessionOptions& options);
  void connect(Channel& peer, const SessionOptions& options);

  Device device_;
  Handle<urma_jfce_t, urma_delete_jfce> jfce_;
  Handle<urma_jfc_t, urma_delete_jfc> sent_, arrived_;
  Handle<urma_jfr_t, urma_delete_jfr> jfr_;
  Handle<urma_jetty_t, urma_delete_jetty> jetty_;
  Memory memory_;
  Segment local_;
  Handle<urma_target_jetty_t, urma_unimport_jetty> target_;
  Bond bond_;
  Import remote_;
};

// Takes up to `count` completions into `cr`. Throws a Failure if a request failed.
int poll(urma_jfc_t* jfc, int count, urma_cr_t* cr);

// Polls `arrived` until the other process has said something. Looks for that seldom.
void poll_meanwhile(const Session& session, const Channel& peer);

// Posts send requests. Each `period`th is signalled; its completion covers those before it.
class Poster {
 public:
  // The buffer of a request is free again for the one that comes this much later.
  static constexpr uint32_t kSlots = Session::kSendDepth;

  Poster(const Session& session, uint32_t period) : session_(session), period_(period) {}

  // Posts `wr`, and waits until there is room for another request and its buffer.
  void post(urma_jfs_wr_t& wr);
  // The same for a chain of `period` requests, in one call; the last one is signalled.
  void post_chain(urma_jfs_wr_t* first, urma_jfs_wr_t* last);
  // Takes a completion if one is due and ready. Makes no call if none is due.
  void poll();
  // Waits for all due completions.
  void drain();

 private:
  void submit(urma_jfs_wr_t* first);

  const Session& session_;
  const uint32_t period_;
  uint32_t since_ = 0;        // requests since the last signalled one
  uint32_t outstanding_ = 0;  // requests that may still use their buffers
  uint32_t due_ = 0;          // completions to come
};

}  // namespace bench

#endif  // TOOLS_BENCH_SESSION_H_
