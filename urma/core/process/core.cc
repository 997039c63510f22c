// SPDX-License-Identifier: MIT
//
// What exists once in a process, and how that starts and ends. Nothing here has a destructor that
// runs at exit: a program may leave without urma_uninit, with its threads still at work.
#include "urma/core/process/core.h"

#include <pthread.h>

#include <atomic>
#include <memory>

#include "segment/inplace/page_table.h"
#include "urma/base/error.h"
#include "urma/base/guard.h"
#include "urma/base/mutex.h"
#include "urma/core/process/detours.h"
#include "urma/core/process/device_files.h"
#include "urma/core/process/inspect_server.h"
#include "urma/core/process/living.h"
#include "urma/core/process/log_sink.h"
#include "urma/core/process/regions.h"
#include "urma/core/process/runtime.h"
#include "urma/core/process/service_thread.h"
#include "urma/core/process/settings.h"
#include "urma/core/process/trace.h"

namespace urma::core {

namespace {

struct Process {
  Mutex mutex;                      // of urma_init and urma_uninit
  std::atomic<bool> in_use{false};  // from the beginning of urma_init to the end of urma_uninit
  std::atomic<bool> ended{false};   // urma_uninit was called
  uint32_t wished_uasid = 0;
  ServiceThread service;
  std::atomic<ProcessRuntime*> runtime{nullptr};  // stored on the service thread only
  std::unique_ptr<InspectServer> inspect;         // of the service thread
  std::unique_ptr<DeviceFiles> files;             // the same
  DeviceTable devices;
  Loader loader;
  PageTable pages;
};

Process& process() {
  static auto& the_process = *new Process;
  return the_process;
}

const urma_host* host_table() {
  static const urma_host table{kUrmaHostVersion,   &log_sink(), &settings(),     &device_table(),
                               &process().service, runtime,     &process().pages};
  return &table;
}

// In the fork under way: the parent waits for the copies of its child behind all other handlers of
// forks, whose locks the service thread may need meanwhile. Registered when there is something to
// wait for, since the parent's handlers run in the order in which they were registered.
thread_local bool waits_behind = false;

void will_wait_behind() { waits_behind = true; }

void wait_behind() URMA_NO_THREAD_SAFETY_ANALYSIS {
  waits_behind = false;
  process().pages.after_fork_in_parent();
}

// The three run in order, which the analysis of locks does not know.
void before_fork() URMA_NO_THREAD_SAFETY_ANALYSIS {
  process().pages.before_fork();
  log_sink().before_fork();
}

void after_fork_in_parent() URMA_NO_THREAD_SAFETY_ANALYSIS {
  log_sink().after_fork_in_parent();
  if (!waits_behind) process().pages.after_fork_in_parent();
}

// Relaxed, here and below: the forking thread itself reads the flag, which never changes back.
void after_fork_in_child() URMA_NO_THREAD_SAFETY_ANALYSIS {
  // First: until then the parent sees what the child writes to shared pages.
  const uint64_t lost = process().pages.after_fork_in_child();
  log_sink().after_fork_in_child();
  if (lost != 0) {
    URMA_LOG(ERR,
             "{} bytes of registered memory could not be copied for this forked child, and are not "
             "mapped in it; give it memory, and descriptors or /proc",
             lost);
  }
  if (process().in_use.load(std::memory_order_relaxed)) {
    begin_detour(kForked);
  }
}

// From here on, lines can be logged and callbacks registered.
__attribute__((constructor)) void on_load() {
  settings().load();
  log_sink().configure(settings());
  set_host(host_table());
  library_path();
  ::pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
  process().pages.at_first_share([] { ::pthread_atfork(will_wait_behind, wait_behind, nullptr); });
}

void refuse_after_fork(const char* call) {
  if (is_forked()) {
    fail(URMA_FAIL,
         "{}: this process was forked while its parent used the library; the child can "
         "use it only after exec",
         call);
  }
}

// The process works without them; the log says why there are none.
void show_devices() {
  auto& self = process();
  auto* made = self.runtime.load(std::memory_order_relaxed);
  if (made == nullptr) return;
  guarded(URMA_LOG_SITE, [&] {
    self.service.run([&] {
      self.files = std::make_unique<DeviceFiles>(made->janitor(), made->path(), made->slot(),
                                                 self.devices.shown());
    });
  });
}

// A separate line says why a module is not used.
void log_devices() {
  auto& devices = process().devices;
  for (const auto& provider : devices.providers()) {
    URMA_LOG(DEBUG, "provider {} of {} has {} devices{}{}", provider.name, provider.path,
             provider.devices, provider.reason[0] == '\0' ? "" : ": ", provider.reason);
  }
  for (const auto* device : devices.list()) {
    URMA_LOG(DEBUG, "device {} has {} EIDs", device->name, devices.eids_of(device).size());
  }
}

void start(urma_init_attr_t* conf) {
  auto& self = process();
  self.pages.set_in_place(settings().flag("URMA_SHM_INPLACE"));
  self.service.start();
  self.wished_uasid = conf == nullptr ? 0 : conf->uasid;
  if (self.wished_uasid != 0) runtime();
  self.loader.load(host_table());
  for (auto* ops : self.loader.foreign_providers()) self.devices.add_provider(ops);
  if (!self.devices.has_providers()) {
    fail(URMA_FAIL, "no provider module was found beside {} or in URMA_PROVIDER_PATH",
         library_path());
  }
  self.devices.init_providers(conf);
  self.devices.rescan();
  self.devices.set_aliases(
      parse_aliases(settings().text("URMA_DEVICE_ALIAS"), settings().text("URMA_BOND")));
  log_devices();
  show_devices();
  trace::start(settings().text("URMA_TRACE"), &self.service);
}

// Threads end before the modules whose code they run are unloaded.
bool end() {
  auto& self = process();
  guarded(URMA_LOG_SITE, [] { trace::stop(); });
  // First: no other process may inspect what ends.
  if (self.runtime.load(std::memory_order_relaxed) != nullptr) {
    guarded(URMA_LOG_SITE, [&] {
      self.service.run([&] {
        self.inspect.reset();
        self.files.reset();
      });
    });
  }
  const bool all = self.devices.uninit_providers();
  // Relaxed: the runtime is made and destroyed on the service thread.
  if (self.runtime.load(std::memory_order_relaxed) != nullptr) {
    guarded(URMA_LOG_SITE, [&] {
      self.service.run([&] {
        // A provider may have made the runtime only as it ended.
        self.inspect.reset();
        regions().clear(self.runtime.load(std::memory_order_relaxed)->dir_fd());
        delete self.runtime.exchange(nullptr, std::memory_order_relaxed);
      });
    });
  }
  self.service.stop();
  self.pages.clear();
  guarded(URMA_LOG_SITE, [] { abandon_living(); });
  self.devices.clear();
  self.loader.unload();
  return all;
}

}  // namespace

urma_status_t init(urma_init_attr_t* conf) {
  refuse_after_fork("urma_init");
  auto& self = process();
  const MutexLock lock(self.mutex);
  if (self.in_use.load(std::memory_order_relaxed)) return URMA_EEXIST;
  const auto complaints = settings().load();
  log_sink().configure(settings());
  for (const auto& line : complaints) URMA_LOG(WARNING, "{}", line);
  self.in_use.store(true, std::memory_order_relaxed);
  try {
    start(conf);
  } catch (...) {
    end();
    self.in_use.store(false, std::memory_order_relaxed);
    throw;
  }
  return URMA_SUCCESS;
}

urma_status_t uninit() {
  refuse_after_fork("urma_uninit");
  auto& self = process();
  const MutexLock lock(self.mutex);
  if (!self.in_use.load(std::memory_order_relaxed)) {
    URMA_LOG(WARNING, "urma_uninit without urma_init");
    return URMA_SUCCESS;
  }
  const bool all = end();
  self.ended.store(true, std::memory_order_relaxed);
  self.in_use.store(false, std::memory_order_relaxed);
  return all ? URMA_SUCCESS : URMA_FAIL;
}

DeviceTable& device_table() { return process().devices; }

const urma_device_attr_t* attr_of(const urma_device_t* device) {
  return device_table().attr_of(device);
}

Loader& loader() { return process().loader; }

PageTable& shared_pages() { return process().pages; }

bool in_use() { return process().in_use.load(std::memory_order_relaxed); }

const char* not_started_text() {
  return process().ended.load(std::memory_order_relaxed)
             ? "call urma_init again first: urma_uninit has ended the library, and all that was "
               "made before"
             : "call urma_init first";
}

Runtime* runtime() {
  auto& self = process();
  // Acquire pairs with the release below.
  if (auto* made = self.runtime.load(std::memory_order_acquire)) return made;
  if (!self.in_use.load(std::memory_order_relaxed)) fail(URMA_FAIL, "{}", not_started_text());
  // Made on the service thread: two callers at once then need no lock, which could block that
  // thread.
  self.service.run([&] {
    if (self.runtime.load(std::memory_order_relaxed) != nullptr) return;
    auto* made = new ProcessRuntime(self.service, settings(), self.wished_uasid);
    self.runtime.store(made, std::memory_order_release);
    // Tools query the chosen directory if none is set.
    settings().put_in_force("URMA_RUNTIME_DIR", made->path());
    // The process works even if it cannot be inspected; the log says why.
    guarded(URMA_LOG_SITE,
            [&] { self.inspect = std::make_unique<InspectServer>(self.service, *made); });
  });
  return self.runtime.load(std::memory_order_acquire);
}

uint32_t uasid() {
  refuse_after_fork("urma_get_uasid");
  try {
    return runtime()->uasid();
  } catch (const Error&) {
    const auto given = device_table().provider_uasid();
    if (!given) throw;
    return *given;
  }
}

}  // namespace urma::core
