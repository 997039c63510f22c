// SPDX-License-Identifier: MIT
#include "jetty/context.h"

#include <sys/mman.h>
#include <unistd.h>
#include <valgrind/valgrind.h>

#include <memory>

#include "jetty/event_channel.h"
#include "jetty/queues.h"
#include "jetty/remote.h"
#include "urma/base/error.h"
#include "urma/base/log.h"

namespace urma {
namespace {

void require_token_policy(const char* what, uint32_t policy) {
  if (policy > URMA_TOKEN_PLAIN_TEXT) {
    fail(URMA_EINVAL, "{}: token_policy {} is not supported; use NONE (0) or PLAIN_TEXT (1)", what,
         policy);
  }
}

void require_range(uint64_t va, uint64_t len) {
  if (len == 0 || va + len < va) {
    fail(URMA_EINVAL, "register_seg: invalid range: {} bytes at {:#x}", len, va);
  }
}

// Unmapped memory would fail at the first access; hardware would refuse to pin it now.
void require_mapped(uint64_t va, uint64_t len) {
  require_range(va, len);
  const uint64_t page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  const uint64_t first = va / page * page;
  // Memcheck assumes that msync reads the whole page, also the part that malloc has not given out.
  VALGRIND_DISABLE_ERROR_REPORTING;
  const int missing = ::msync(reinterpret_cast<void*>(first), va + len - first, MS_ASYNC);
  VALGRIND_ENABLE_ERROR_REPORTING;
  if (missing != 0) {
    fail(URMA_EINVAL, "register_seg: the {} bytes at {:#x} are not all mapped", len, va);
  }
}

}  // namespace

Context::Context(Transport* transport, const urma_device_attr_t& attr, urma_device_t* device,
                 uint32_t index, Faults* faults)
    : urma_context_t{},
      transport_(transport),
      faults_(faults != nullptr ? faults : transport->faults()),
      own_eid_(index),
      caps_(attr.dev_cap),
      channels_(std::make_shared<ChannelTable>(transport->next_serial())) {
  dev = device;
  dev_fd = -1;
  async_fd = events_.fd();
  eid = transport->eid(index);
  eid_index = index;
  uasid = transport->uasid();
}

urma_jfce_t* Context::create_jfce() {
  return std::make_unique<EventChannel>(this, transport_->next_serial(), transport_->busy_poll_ns())
      .release();
}

// Moves first what has arrived: it may raise the event that the program waits for here.
urma_status_t Context::get_async_event(urma_async_event_t* event) {
  if (events_.take(event)) return URMA_SUCCESS;
  if (events_.blocking()) {
    transport_->take_over();
  } else {
    transport_->progress_receives();
  }
  return events_.get(event);
}

urma_jfs_cfg_t Context::effective(const urma_jfs_cfg_t& asked) const {
  if (asked.priority > URMA_MAX_PRIORITY) {
    fail(URMA_EINVAL, "priority {} is not supported; use 0 to {}", asked.priority,
         URMA_MAX_PRIORITY);
  }
  urma_jfs_cfg_t cfg = asked;
  if (cfg.max_sge == 0) cfg.max_sge = static_cast<uint8_t>(caps_.max_jfs_sge);
  if (cfg.max_rsge == 0) cfg.max_rsge = 1;
  if (cfg.max_inline_data == 0) cfg.max_inline_data = caps_.max_jfs_inline_len;
  return cfg;
}

urma_jfr_cfg_t Context::effective(const urma_jfr_cfg_t& asked) const {
  require_token_policy("jfr", asked.flag.bs.token_policy);
  urma_jfr_cfg_t cfg = asked;
  if (cfg.max_sge == 0) cfg.max_sge = static_cast<uint8_t>(caps_.max_jfr_sge);
  return cfg;
}

urma_target_jetty_t* Context::import_queue(const urma_jetty_id_t& id, urma_target_type_t type,
                                           urma_transport_mode_t mode,
                                           urma_import_jetty_flag_t flag, urma_tp_type_t tp_type,
                                           const urma_token_t* token) {
  if (mode != URMA_TM_RM && mode != URMA_TM_RC && mode != URMA_TM_UM) {
    fail(URMA_EINVAL,
         "import: trans_mode {} is not supported by {}; use URMA_TM_RM (1), URMA_TM_RC (2) or "
         "URMA_TM_UM (4)",
         static_cast<int>(mode), dev->name);
  }
  if (mode == URMA_TM_RC && type != URMA_JETTY) {
    fail(URMA_EINVAL, "import: type {} in URMA_TM_RC (2); only a JETTY (1) can be bound",
         static_cast<int>(type));
  }
  if (mode != URMA_TM_RM && type == URMA_JETTY_GROUP) {
    fail(URMA_EINVAL, "import: trans_mode {} of a group; only URMA_TM_RM (1) has groups",
         static_cast<int>(mode));
  }
  require_token_policy("import", flag.bs.token_policy);
  transport_->require_kind(id, type);
  auto queue = std::make_unique<RemoteQueue>();
  static_cast<urma_target_jetty_t&>(*queue) = {};
  queue->urma_ctx = this;
  queue->id = id;
  queue->trans_mode = mode;
  queue->channel = use_channel(flag.bs.share_tp != 0
                                   ? channels_->at(ChannelKey{eid, id.eid, mode, tp_type}).number
                                   : id.id & INT32_MAX);
  queue->tp.tpn = mode == URMA_TM_RC ? UINT32_MAX : queue->channel.number();
  queue->type = type;
  queue->flag = flag;
  queue->tp_type = tp_type;
  queue->transport = transport_;
  queue->token = token != nullptr ? *token : urma_token_t{0};
  queue->handle = transport_->next_serial();
  queue->serial = transport_->queue_serials().take(queue->key(), queue->handle);
  return queue.release();
}

urma_target_jetty_t* Context::import_jfr(urma_rjfr_t* rjfr, urma_token_t* token) {
  return import_queue(rjfr->jfr_id, URMA_JFR, rjfr->trans_mode, rjfr->flag, rjfr->tp_type, token);
}

urma_target_jetty_t* Context::import_jetty(urma_rjetty_t* rjetty, urma_token_t* token) {
  urma_target_jetty_t* target = import_queue(rjetty->jetty_id, rjetty->type, rjetty->trans_mode,
                                             rjetty->flag, rjetty->tp_type, token);
  target->policy = rjetty->policy;
  return target;
}

urma_token_id_t* Context::alloc_token_id(urma_token_id_flag_t flag) {
  auto token = std::make_unique<TokenId>();
  token->urma_ctx = this;
  token->flag = flag;
  token->token_id = transport_->take_id(IdKind::kToken, own_eid_, 0);
  token->handle = token->token_id;
  return token.release();
}

// Fills in a segment except its `ref` and what programs may read: the caller does that. Of the
// latter, only the attributes are filled in, since a provider looks at them.
std::unique_ptr<Segment> Context::describe(const urma_seg_cfg_t& cfg) {
  require_token_policy("register_seg", cfg.flag.bs.token_policy);
  if (cfg.token_id == nullptr) fail(URMA_EINVAL, "register_seg: token_id is NULL; allocate one");
  std::unique_ptr<Segment> segment = transport_->make_segment();
  segment->seg.attr.value = cfg.flag.value;
  segment->urma_ctx = this;
  segment->registered = true;
  const uint32_t access = cfg.flag.bs.access;
  segment->eid = eid;
  segment->base = cfg.va;
  segment->len = cfg.len;
  segment->token_id_value = cfg.token_id->token_id;
  segment->token_policy = cfg.flag.bs.token_policy;
  segment->token = cfg.token_value;
  segment->access = (access & URMA_ACCESS_LOCAL_ONLY) != 0 ? 0 : access;
  segment->device = dev->name;
  return segment;
}

urma_target_seg_t* Context::register_seg(urma_seg_cfg_t* cfg) {
  require_mapped(cfg->va, cfg->len);
  std::unique_ptr<Segment> segment = describe(*cfg);
  transport_->enter(segment.get());
  segment->handle = segment->ref.index;
  return segment.release();
}

urma_target_seg_t* Context::register_foreign(urma_seg_cfg_t* cfg,
                                             const std::function<void(Segment*)>& enter) {
  require_range(cfg->va, cfg->len);
  std::unique_ptr<Segment> segment = describe(*cfg);
  segment->foreign = true;
  enter(segment.get());
  segment->handle = segment->ref.index;
  return segment.release();
}

urma_target_seg_t* Context::import_seg(urma_seg_t* seg, urma_token_t* token, uint64_t addr,
                                       urma_import_seg_flag_t flag) {
  require_token_policy("import_seg", seg->attr.bs.token_policy);
  urma_seg_t described = *seg;
  const bool same_address =
      seg->attr.bs.dsva == URMA_DSVA_ENABLE && (flag.bs.mapping == URMA_SEG_MAPPED || addr != 0);
  if (!same_address) described.attr.bs.dsva = URMA_DSVA_DISABLE;
  if (same_address && addr != 0 && addr != seg->ubva.va) {
    fail(URMA_EINVAL, "import_seg: addr {:#x} with dsva is not the owner's {:#x}; pass that, or 0",
         addr, uint64_t{seg->ubva.va});
  }
  const urma_token_t value = token != nullptr ? *token : urma_token_t{0};
  ImportedSegment* segment = transport_->import_segment(this, described, value, flag.bs.access);
  if (flag.bs.mapping != URMA_SEG_MAPPED && !same_address) return segment;
  segment->mva = segment->wait_mapped();
  if (segment->mva == 0) {
    URMA_LOG_LIMITED(WARNING,
                     "import_seg: the segment at va {:#x} cannot be mapped as a whole; mva is 0, "
                     "use work requests (urma_ext_query_segment tells why)",
                     uint64_t{seg->ubva.va});
  }
  return segment;
}

}  // namespace urma
