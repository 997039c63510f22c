// SPDX-License-Identifier: MIT
#include "test/process/endpoint.h"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>

#include "test/process/configs.h"
#include "urma_ext.h"
#include "urma_provider.h"

namespace urma_test {
namespace {

constexpr uint32_t kJfcDepth = 1024;

uint32_t policy_of(uint32_t token) {
  return token == kNoToken ? URMA_TOKEN_NONE : URMA_TOKEN_PLAIN_TEXT;
}

// A call that returns NULL must set errno; the message shows it.
template <typename T>
T* made(T* object, const char* call) {
  if (object == nullptr) throw std::runtime_error(std::string(call) + ": " + std::strerror(errno));
  return object;
}

urma_jfs_wr_t request(urma_opcode_t opcode, urma_target_jetty_t* queue, uint64_t user_ctx) {
  urma_jfs_wr_t wr = {};
  wr.opcode = opcode;
  wr.flag.bs.complete_enable = URMA_COMPLETE_ENABLE;
  wr.tjetty = queue;
  wr.user_ctx = user_ctx;
  return wr;
}

}  // namespace

bool over_shared_memory() {
  const char* name = std::getenv("URMA_DEVICE");
  if (name == nullptr) return true;
  // Peers of the bonded device in another directory are reached by the network.
  if (std::string(name) == "bonding_dev_0") return std::getenv("URMA_PEER_DIRECTORY") == nullptr;
  return std::strncmp(name, "urma_shm", std::strlen("urma_shm")) == 0;
}

urma_device_t* find_device() {
  if (char* name = std::getenv("URMA_DEVICE")) {
    return made(urma_get_device_by_name(name), "urma_get_device_by_name");
  }
  int count = 0;
  urma_device_t** list = made(urma_get_device_list(&count), "urma_get_device_list");
  urma_device_t* first = list[0];
  urma_free_device_list(list);
  return first;
}

DeviceTraits traits_of(const urma_context_t* ctx) {
  constexpr size_t kDatagramHeader = 40;
  urma_device_attr_t attr = {};
  EXPECT_EQ(urma_query_device(ctx->dev, &attr), URMA_SUCCESS);
  urma_ext_device_t further = {};
  EXPECT_EQ(urma_ext_query_device(ctx->dev, &further), URMA_SUCCESS);
  const std::string provider = ctx->dev->ops->name;
  const bool verbs = provider == "verbs";
  DeviceTraits traits = {
      .maps = !verbs && provider != "tcp" && std::getenv("URMA_PEER_DIRECTORY") == nullptr,
      .max_atomic = attr.dev_cap.max_cas_size,
      .max_datagram = SIZE_MAX,
      .modes = attr.dev_cap.trans_mode,
      .immediates = further.immediate != 0,
      .ordered = !verbs,
      .reconnects = !verbs};
  EXPECT_TRUE(traits.immediates || !traits.maps);
  if (verbs) {
    const auto steps = static_cast<uint32_t>(attr.port_attr[0].active_mtu) - URMA_MTU_256;
    traits.max_datagram = (size_t{256} << steps) - kDatagramHeader;
  }
  return traits;
}

const DeviceTraits& device_traits() {
  static const DeviceTraits kTraits = [] {
    Child asked(kInquirer, [](Channel& channel) {
      OwnedEndpoint endpoint;
      channel.send(traits_of(endpoint.ctx));
    });
    const auto traits = asked.channel().receive<DeviceTraits>();
    asked.expect_success();
    return traits;
  }();
  return kTraits;
}

uint32_t find_eid_index() {
  const char* index = std::getenv("URMA_EID_INDEX");
  return index != nullptr ? static_cast<uint32_t>(std::atoi(index)) : 0;
}

urma_cr_t wait_for(urma_jfc_t* jfc, milliseconds limit) {
  const auto deadline = Clock::now() + patience(limit);
  urma_cr_t cr = {};
  while (true) {
    const int n = urma_poll_jfc(jfc, 1, &cr);
    if (n == 1) return cr;
    if (n < 0) throw std::runtime_error("urma_poll_jfc: " + std::to_string(n));
    if (Clock::now() > deadline) throw std::runtime_error("no completion in time");
    ::sched_yield();
  }
}

urma_cr_t wait_for_success(urma_jfc_t* jfc, uint64_t user_ctx) {
  const urma_cr_t cr = wait_for(jfc);
  EXPECT_EQ(cr.status, URMA_CR_SUCCESS);
  EXPECT_EQ(cr.user_ctx, user_ctx);
  return cr;
}

void wait_for_status(urma_jfc_t* jfc, urma_cr_status_t status) {
  EXPECT_EQ(wait_for(jfc).status, status);
}

bool has_nothing(urma_jfc_t* jfc) {
  urma_cr_t cr;
  return urma_poll_jfc(jfc, 1, &cr) == 0;
}

Endpoint::Endpoint(const Config& wanted) : config(wanted) {
  EXPECT_EQ(urma_init(nullptr), URMA_SUCCESS);
  open_queues();
}

void Endpoint::open_queues() {
  ctx = made(urma_create_context(find_device(), find_eid_index()), "urma_create_context");
  urma_jfc_cfg_t jfc_cfg = jfc_config(kJfcDepth);
  jfc_cfg.flag.bs.lock_free = config.lock_free;
  jfc_cfg.flag.bs.non_blocking = config.non_blocking;
  if (config.events) jfce = made(urma_create_jfce(ctx), "urma_create_jfce");
  jfc_cfg.jfce = jfce;
  send_jfc = made(urma_create_jfc(ctx, &jfc_cfg), "urma_create_jfc");
  receive_jfc = config.one_jfc ? send_jfc : made(urma_create_jfc(ctx, &jfc_cfg), "urma_create_jfc");

  urma_jfr_cfg_t jfr_cfg = {};
  jfr_cfg.depth = config.receive_depth;
  jfr_cfg.flag.bs.lock_free = config.lock_free;
  jfr_cfg.flag.bs.token_policy = policy_of(config.token);
  jfr_cfg.trans_mode = config.mode;
  jfr_cfg.id = config.jetty ? 0 : config.id;
  jfr_cfg.max_sge = config.max_sge;
  jfr_cfg.min_rnr_timer = URMA_TYPICAL_MIN_RNR_TIMER;
  jfr_cfg.jfc = receive_jfc;
  jfr_cfg.token_value.token = config.token;
  jfr = made(urma_create_jfr(ctx, &jfr_cfg), "urma_create_jfr");
  open_send_queue();
}

void Endpoint::open_send_queue() {
  urma_jfs_cfg_t jfs_cfg = {};
  jfs_cfg.depth = config.send_depth;
  jfs_cfg.flag.bs.lock_free = config.lock_free;
  jfs_cfg.trans_mode = config.mode;
  jfs_cfg.max_sge = config.max_sge;
  jfs_cfg.max_inline_data = config.max_inline;
  jfs_cfg.max_rsge = 1;
  jfs_cfg.rnr_retry = config.rnr_retry;
  jfs_cfg.err_timeout = config.err_timeout;
  jfs_cfg.jfc = send_jfc;
  if (!config.jetty) {
    jfs = made(urma_create_jfs(ctx, &jfs_cfg), "urma_create_jfs");
    return;
  }
  urma_jetty_cfg_t cfg = jetty_config(jfr, jfs_cfg);
  cfg.id = config.id;
  jetty = made(urma_create_jetty(ctx, &cfg), "urma_create_jetty");
}

void Endpoint::close_queues() {
  if (jetty && jetty->remote_jetty) {
    EXPECT_EQ(urma_unbind_jetty(jetty), URMA_SUCCESS);
  }
  while (!imported_queues_.empty()) unimport(imported_queues_.back());
  while (!imported_segments_.empty()) unimport(imported_segments_.back());
  EXPECT_EQ(jetty ? urma_delete_jetty(jetty) : urma_delete_jfs(jfs), URMA_SUCCESS);
  EXPECT_EQ(urma_delete_jfr(jfr), URMA_SUCCESS);
  EXPECT_EQ(urma_delete_jfc(send_jfc), URMA_SUCCESS);
  if (receive_jfc != send_jfc) {
    EXPECT_EQ(urma_delete_jfc(receive_jfc), URMA_SUCCESS);
  }
  EXPECT_TRUE(jfce == nullptr || urma_delete_jfce(jfce) == URMA_SUCCESS);
  jfce = nullptr;
  for (urma_target_seg_t* segment : segments_) {
    EXPECT_EQ(urma_unregister_seg(segment), URMA_SUCCESS);
  }
  segments_.clear();
  EXPECT_EQ(urma_delete_context(ctx), URMA_SUCCESS);
  jetty = nullptr;
  jfs = nullptr;
}

void Endpoint::close() {
  closed_ = true;
  close_queues();
  EXPECT_EQ(urma_uninit(), URMA_SUCCESS);
}

QueueId Endpoint::queue_id() const { return {ctx->eid, receiver_id(), config.token, config.jetty}; }

urma_target_seg_t* Endpoint::add(void* memory, size_t size, uint32_t access, uint32_t token) {
  urma_seg_cfg_t cfg = seg_config(memory, size, access);
  cfg.token_value.token = token;
  cfg.flag.bs.token_policy = policy_of(token);
  segments_.push_back(made(urma_register_seg(ctx, &cfg), "urma_register_seg"));
  return segments_.back();
}

void Endpoint::remove(urma_target_seg_t* segment) {
  EXPECT_EQ(std::erase(segments_, segment), 1u);
  EXPECT_EQ(urma_unregister_seg(segment), URMA_SUCCESS);
}

SegmentId Endpoint::segment_id(const urma_target_seg_t* segment, uint32_t token) const {
  const urma_seg_t& seg = segment->seg;
  return {seg.ubva.eid, seg.ubva.va, seg.len, seg.token_id, token};
}

urma_target_jetty_t* Endpoint::import(const QueueId& id) {
  urma_token_t token = {id.token};
  urma_target_jetty_t* queue;
  if (id.jetty) {
    urma_rjetty_t remote = {};
    remote.jetty_id.eid = id.eid;
    remote.jetty_id.id = id.id;
    remote.trans_mode = config.mode;
    remote.type = URMA_JETTY;
    remote.tp_type = config.mode == URMA_TM_UM ? URMA_UTP : URMA_RTP;
    remote.flag.bs.token_policy = policy_of(id.token);
    queue = made(urma_import_jetty(ctx, &remote, &token), "urma_import_jetty");
  } else {
    urma_rjfr_t remote = {};
    remote.jfr_id.eid = id.eid;
    remote.jfr_id.id = id.id;
    remote.trans_mode = config.mode;
    remote.flag.bs.token_policy = policy_of(id.token);
    queue = made(urma_import_jfr(ctx, &remote, &token), "urma_import_jfr");
  }
  imported_queues_.push_back(queue);
  return queue;
}

urma_target_seg_t* Endpoint::import(const SegmentId& id, bool mapped) {
  urma_seg_t remote = {};
  remote.ubva.eid = id.eid;
  remote.ubva.va = id.va;
  remote.len = id.len;
  remote.token_id = id.token_id;
  remote.attr.bs.token_policy = policy_of(id.token);
  urma_token_t token = {id.token};
  urma_import_seg_flag_t flag = {};
  flag.bs.mapping = mapped ? URMA_SEG_MAPPED : URMA_SEG_NOMAP;
  imported_segments_.push_back(
      made(urma_import_seg(ctx, &remote, &token, 0, flag), "urma_import_seg"));
  return imported_segments_.back();
}

void Endpoint::bind(urma_target_jetty_t* peer) {
  EXPECT_EQ(urma_bind_jetty(jetty, peer), URMA_SUCCESS);
}

void Endpoint::unimport(urma_target_jetty_t* queue) {
  EXPECT_EQ(std::erase(imported_queues_, queue), 1u);
  EXPECT_EQ(config.jetty ? urma_unimport_jetty(queue) : urma_unimport_jfr(queue), URMA_SUCCESS);
}

void Endpoint::unimport(urma_target_seg_t* segment) {
  EXPECT_EQ(std::erase(imported_segments_, segment), 1u);
  EXPECT_EQ(urma_unimport_seg(segment), URMA_SUCCESS);
}

urma_status_t Endpoint::post(urma_jfs_wr_t* wr, urma_jfs_wr_t** bad) {
  return jetty ? urma_post_jetty_send_wr(jetty, wr, bad) : urma_post_jfs_wr(jfs, wr, bad);
}

void Endpoint::post(urma_jfs_wr_t wr) {
  urma_jfs_wr_t* bad = nullptr;
  EXPECT_EQ(post(&wr, &bad), URMA_SUCCESS);
}

urma_status_t Endpoint::post_receive(urma_jfr_wr_t* wr, urma_jfr_wr_t** bad) {
  return jetty ? urma_post_jetty_recv_wr(jetty, wr, bad) : urma_post_jfr_wr(jfr, wr, bad);
}

void Endpoint::post_receive(urma_target_seg_t* segment, void* memory, size_t size,
                            uint64_t user_ctx) {
  urma_sge_t sge = piece(segment, memory, size);
  urma_jfr_wr_t wr = {};
  wr.src = {&sge, 1};
  wr.user_ctx = user_ctx;
  urma_jfr_wr_t* bad = nullptr;
  EXPECT_EQ(post_receive(&wr, &bad), URMA_SUCCESS);
}

urma_sge_t piece(urma_target_seg_t* segment, uint64_t address, size_t size) {
  urma_sge_t sge = {};
  sge.addr = address;
  sge.len = static_cast<uint32_t>(size);
  sge.tseg = segment;
  return sge;
}

urma_jfs_wr_t write_request(urma_target_jetty_t* queue, urma_sge_t* local, urma_sge_t* remote,
                            uint64_t user_ctx) {
  urma_jfs_wr_t wr = request(URMA_OPC_WRITE, queue, user_ctx);
  wr.rw.src = {local, 1};
  wr.rw.dst = {remote, 1};
  return wr;
}

urma_jfs_wr_t write_imm_request(urma_target_jetty_t* queue, urma_sge_t* local, urma_sge_t* remote,
                                uint64_t immediate, uint64_t user_ctx) {
  urma_jfs_wr_t wr = write_request(queue, local, remote, user_ctx);
  wr.opcode = URMA_OPC_WRITE_IMM;
  wr.rw.notify_data = immediate;
  return wr;
}

urma_jfs_wr_t write_notify_request(urma_target_jetty_t* queue, urma_sge_t* local,
                                   urma_sge_t* remote, uint64_t value, uint64_t user_ctx) {
  urma_jfs_wr_t wr = write_imm_request(queue, local, remote, value, user_ctx);
  wr.opcode = URMA_OPC_WRITE_NOTIFY;
  wr.rw.dst.num_sge = 2;
  return wr;
}

urma_jfs_wr_t write_atomic_request(urma_target_jetty_t* queue, urma_sge_t* local,
                                   urma_sge_t* remote, uint64_t user_ctx) {
  urma_jfs_wr_t wr = write_request(queue, local, remote, user_ctx);
  wr.opcode = URMA_OPC_WRITE_ATOMIC;
  return wr;
}

urma_jfs_wr_t read_request(urma_target_jetty_t* queue, urma_sge_t* local, urma_sge_t* remote,
                           uint64_t user_ctx) {
  urma_jfs_wr_t wr = request(URMA_OPC_READ, queue, user_ctx);
  wr.rw.src = {remote, 1};
  wr.rw.dst = {local, 1};
  return wr;
}

urma_jfs_wr_t send_request(urma_target_jetty_t* queue, urma_sge_t* local, uint64_t user_ctx) {
  urma_jfs_wr_t wr = request(URMA_OPC_SEND, queue, user_ctx);
  wr.send.src = {local, 1};
  return wr;
}

urma_jfs_wr_t send_imm_request(urma_target_jetty_t* queue, urma_sge_t* local, uint64_t immediate,
                               uint64_t user_ctx) {
  urma_jfs_wr_t wr = send_request(queue, local, user_ctx);
  wr.opcode = URMA_OPC_SEND_IMM;
  wr.send.imm_data = immediate;
  return wr;
}

urma_jfs_wr_t send_invalidate_request(urma_target_jetty_t* queue, urma_sge_t* local,
                                      urma_target_seg_t* segment, uint64_t user_ctx) {
  urma_jfs_wr_t wr = send_request(queue, local, user_ctx);
  wr.opcode = URMA_OPC_SEND_INVALIDATE;
  wr.send.tseg = segment;
  return wr;
}

urma_jfs_wr_t nop_request(urma_target_jetty_t* queue, uint64_t user_ctx) {
  return request(URMA_OPC_NOP, queue, user_ctx);
}

urma_jfs_wr_t cas_request(urma_target_jetty_t* queue, urma_sge_t* old, urma_sge_t* remote,
                          uint64_t compare, uint64_t swap, uint64_t user_ctx) {
  urma_jfs_wr_t wr = request(URMA_OPC_CAS, queue, user_ctx);
  wr.cas.src = old;
  wr.cas.dst = remote;
  wr.cas.cmp_data = compare;
  wr.cas.swap_data = swap;
  return wr;
}

urma_jfs_wr_t add_request(urma_target_jetty_t* queue, urma_sge_t* old, urma_sge_t* remote,
                          uint64_t operand, uint64_t user_ctx) {
  return fetch_request(URMA_OPC_FADD, queue, old, remote, operand, user_ctx);
}

urma_jfs_wr_t fetch_request(urma_opcode_t opcode, urma_target_jetty_t* queue, urma_sge_t* old,
                            urma_sge_t* remote, uint64_t operand, uint64_t user_ctx) {
  urma_jfs_wr_t wr = request(opcode, queue, user_ctx);
  if (opcode == URMA_OPC_SWAP) {
    wr.cas.src = old;
    wr.cas.dst = remote;
    wr.cas.swap_data = operand;
  } else {
    wr.faa.src = old;
    wr.faa.dst = remote;
    wr.faa.operand = operand;
  }
  return wr;
}

}  // namespace urma_test
