// SPDX-License-Identifier: MIT
#include "tools/bench/session.h"

#include <dlfcn.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstring>
#include <string_view>
#include <vector>

#include "urma_ext.h"
#include "urma_types_str.h"

namespace bench {
namespace {

constexpr size_t kPage = 4096;

template <typename T>
T* made(T* object, const char* what) {
  if (object == nullptr) fail_errno(what);
  return object;
}

// Extensions are looked up at run time, so that this program also measures other libraries.
template <typename Function>
Function* extension(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_DEFAULT, name));
}

// The data that the other process needs to reach this one.
struct Offer {
  urma_jetty_id_t jetty;
  urma_seg_t seg;
};

urma_device_t* find_device(const char* name) {
  if (name == nullptr) name = ::getenv("URMA_DEVICE");
  if (name != nullptr) {
    urma_device_t* found = urma_get_device_by_name(const_cast<char*>(name));
    require(found != nullptr, std::string("there is no device ") + name +
                                  "; `urma_admin show dev` lists those that there are");
    return found;
  }
  int count = 0;
  urma_device_t** list = made(urma_get_device_list(&count), "urma_get_device_list");
  urma_device_t* first = list[0];
  urma_free_device_list(list);
  return first;
}

// Before the library starts. The name of the device.
const char* choose_device(Channel& peer, const SessionOptions& options) {
  if (options.device != nullptr && options.device == std::string_view(kBonded)) {
    ::setenv("URMA_BOND", "net0", /*overwrite=*/1);
  }
  // Rows of programs that sleep are about that, not about how seldom they do.
  if (options.events) ::setenv("URMA_BUSY_POLL_US", "0", /*overwrite=*/1);
  const pid_t self = ::getpid();
  if (options.apart && peer.swap(self) < self) {
    const char* const common = ::getenv("URMA_RUNTIME_DIR");
    require(common != nullptr, "set URMA_RUNTIME_DIR; the other directory is made in it");
    ::setenv("URMA_RUNTIME_DIR", (std::string(common) + "/apart").c_str(), /*overwrite=*/1);
  }
  return options.device;
}

urma_jfs_cfg_t send_config(const SessionOptions& options, urma_jfc_t* jfc) {
  urma_jfs_cfg_t cfg = {};
  cfg.depth = Session::kSendDepth;
  cfg.flag.bs.lock_free = options.lock_free;
  cfg.trans_mode = options.mode;
  cfg.max_sge = cfg.max_rsge = 1;
  cfg.rnr_retry = URMA_TYPICAL_RNR_RETRY;
  cfg.err_timeout = URMA_TYPICAL_ERR_TIMEOUT;
  cfg.jfc = jfc;
  return cfg;
}

urma_jfr_cfg_t receive_config(const SessionOptions& options, urma_jfc_t* jfc) {
  urma_jfr_cfg_t cfg = {};
  cfg.depth = Session::kReceiveDepth;
  cfg.flag.bs.lock_free = options.lock_free;
  cfg.trans_mode = options.mode;
  cfg.max_sge = 1;
  cfg.min_rnr_timer = URMA_TYPICAL_MIN_RNR_TIMER;
  cfg.jfc = jfc;
  return cfg;
}

urma_jfc_cfg_t completion_config(const SessionOptions& options, uint32_t depth, urma_jfce_t* jfce) {
  urma_jfc_cfg_t cfg = {};
  cfg.depth = depth;
  cfg.flag.bs.lock_free = options.lock_free;
  cfg.jfce = jfce;
  return cfg;
}

}  // namespace

void ok(urma_status_t status, const char* what) {
  require(status == URMA_SUCCESS, std::string(what) + " failed: " +
                                      (status == URMA_FAIL ? "URMA_FAIL" : ::strerror(status)));
}

Device::Library::Library() { ok(urma_init(nullptr), "urma_init"); }

Device::Library::~Library() { (void)urma_uninit(); }

Device::Device(const char* name)
    : ctx_(made(urma_create_context(find_device(name), 0), "urma_create_context")) {}

Memory make_memory(size_t bytes) {
  void* memory = nullptr;
  require(::posix_memalign(&memory, kPage, bytes) == 0, "posix_memalign: no memory");
  std::memset(memory, 0, bytes);
  return {static_cast<char*>(memory), &::free};
}

Segment register_memory(const Device& device, void* memory, size_t bytes) {
  urma_seg_cfg_t cfg = {};
  cfg.va = reinterpret_cast<uintptr_t>(memory);
  cfg.len = bytes;
  // Large messages are copied from mapped memory only if everybody may read it.
  cfg.flag.bs.token_policy = URMA_TOKEN_NONE;
  cfg.flag.bs.access = URMA_ACCESS_READ | URMA_ACCESS_WRITE | URMA_ACCESS_ATOMIC;
  return Segment(made(urma_register_seg(device.context(), &cfg), "urma_register_seg"));
}

Import import_segment(const Device& device, urma_seg_t seg, uint32_t mapping) {
  urma_import_seg_flag_t flag = {};
  flag.bs.mapping = mapping;
  return Import(made(urma_import_seg(device.context(), &seg, nullptr, 0, flag), "urma_import_seg"));
}

std::string why_not_mapped(const urma_target_seg_t& import) {
  auto* query = extension<decltype(urma_ext_query_segment)>("urma_ext_query_segment");
  auto* text = extension<decltype(urma_ext_reason_text)>("urma_ext_reason_text");
  if (query == nullptr || text == nullptr) {
    return import.mva != 0 ? "" : "not mapped; the library has no urma_ext_query_segment";
  }
  std::vector<urma_ext_part_t> parts(64);
  auto count = static_cast<uint32_t>(parts.size());
  ok(query(&import, parts.data(), &count), "urma_ext_query_segment");
  require(count > 0, "urma_ext_query_segment found no parts");
  for (uint32_t i = 0; i < count; i++) {
    if (i == parts.size()) return "in too many parts";
    if (parts[i].path != URMA_EXT_PATH_MAPPED) {
      return std::string("not mapped: ") + text(parts[i].reason);
    }
  }
  return {};
}

Session::Session(Channel& peer, const SessionOptions& options)
    : device_(choose_device(peer, options)), memory_(make_memory(options.bytes)) {
  create_queues(options);
  local_ = register_memory(device_, memory_.get(), options.bytes);
  connect(peer, options);
}

void Session::create_queues(const SessionOptions& options) {
  urma_context_t* const ctx = device_.context();
  if (options.events) jfce_.reset(made(urma_create_jfce(ctx), "urma_create_jfce"));
  urma_jfc_cfg_t sent = completion_config(options, kSendDepth, nullptr);
  sent_.reset(made(urma_create_jfc(ctx, &sent), "urma_create_jfc"));
  urma_jfc_cfg_t arrived = completion_config(options, kReceiveDepth, jfce_.get());
  arrived_.reset(made(urma_create_jfc(ctx, &arrived), "urma_create_jfc with a JFCE"));
  urma_jfr_cfg_t jfr = receive_config(options, arrived_.get());
  jfr_.reset(made(urma_create_jfr(ctx, &jfr), "urma_create_jfr"));
  urma_jetty_cfg_t jetty = {};
  jetty.flag.bs.share_jfr = URMA_SHARE_JFR;
  jetty.jfs_cfg = send_config(options, sent_.get());
  jetty.shared.jfr = jfr_.get();
  jetty_.reset(made(urma_create_jetty(ctx, &jetty), "urma_create_jetty"));
}

void Session::connect(Channel& peer, const SessionOptions& options) {
  const Offer offer = peer.swap(Offer{jetty_->jetty_id, local_->seg});
  urma_rjetty_t rjetty = {};
  rjetty.jetty_id = offer.jetty;
  rjetty.trans_mode = options.mode;
  rjetty.type = URMA_JETTY;
  target_.reset(made(urma_import_jetty(device_.context(), &rjetty, nullptr), "urma_import_jetty"));
  if (options.mode == URMA_TM_RC) {
    ok(urma_bind_jetty(jetty_.get(), target_.get()), "urma_bind_jetty");
    bond_.jetty = jetty_.get();
  }
  remote_ = import_segment(device_, offer.seg, URMA_SEG_NOMAP);
  peer.sync();
}

urma_sge_t Session::here(size_t offset, uint32_t len) const {
  return {reinterpret_cast<uintptr_t>(at(offset)), len, local_.get(), nullptr};
}

urma_sge_t Session::there(size_t offset, uint32_t len) const {
  return {remote_->seg.ubva.va + offset, len, remote_.get(), nullptr};
}

void Session::post_receives(urma_jfr_wr_t* wr) const {
  urma_jfr_wr_t* bad;
  ok(urma_post_jetty_recv_wr(jetty_.get(), wr, &bad), "urma_post_jetty_recv_wr");
}

int poll(urma_jfc_t* jfc, int count, urma_cr_t* cr) {
  const int n = urma_poll_jfc(jfc, count, cr);
  if (n < 0) throw Failure("urma_poll_jfc returned " + std::to_string(n));
  for (int i = 0; i < n; i++) {
    if (cr[i].status != URMA_CR_SUCCESS) {
      throw Failure(std::string("a request failed: ") + urma_cr_status_to_string(cr[i].status));
    }
  }
  return n;
}

void poll_meanwhile(const Session& session, const Channel& peer) {
  pollfd said = {peer.fd(), POLLIN, 0};
  urma_cr_t cr;
  do {
    for (int i = 0; i < 1000; i++) poll(session.arrived(), 1, &cr);
  } while (::poll(&said, 1, 0) == 0);
}

void Poster::submit(urma_jfs_wr_t* first) {
  urma_jfs_wr_t* bad;
  const urma_status_t status = urma_post_jetty_send_wr(session_.jetty(), first, &bad);
  if (status != URMA_SUCCESS) ok(status, "urma_post_jetty_send_wr");
}

void Poster::post(urma_jfs_wr_t& wr) {
  const bool leaves_completion = ++since_ == period_;
  wr.flag.bs.complete_enable = leaves_completion;
  submit(&wr);
  outstanding_++;
  if (leaves_completion) {
    since_ = 0;
    due_++;
  }
  while (outstanding_ == kSlots) poll();
}

void Poster::post_chain(urma_jfs_wr_t* first, urma_jfs_wr_t* last) {
  last->flag.bs.complete_enable = 1;
  submit(first);
  outstanding_ += period_;
  due_++;
  while (outstanding_ + period_ > kSlots) poll();
}

void Poster::poll() {
  if (due_ == 0) return;
  urma_cr_t cr;
  if (bench::poll(session_.sent(), 1, &cr) == 0) return;
  due_--;
  outstanding_ -= period_;
}

void Poster::drain() {
  while (due_ > 0) poll();
}

}  // namespace bench
