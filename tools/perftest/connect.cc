// SPDX-License-Identifier: MIT
#include "tools/perftest/connect.h"

#include <cstring>
#include <random>
#include <string>

namespace perftest {
namespace {

// The block that step 5 of the exchange swaps for each jetty.
struct ChannelInfo {
  uint64_t handle;
  uint32_t first_packet;
  uint32_t reserved;
};
static_assert(sizeof(ChannelInfo) == 16);
static_assert(sizeof(urma_seg_t) == 48 && sizeof(urma_jetty_id_t) == 24);

constexpr int kImportTimeoutMs = 10000;
constexpr int kNotifySliceMs = 200;

size_t pair_of(const Config& config, uint32_t lane) { return config.pairs ? lane : 0; }
uint32_t lanes_of_pair(const Config& config) { return config.pairs ? 1 : config.jettys; }

std::span<const uint8_t> bytes_of(const void* data, size_t size) {
  return {static_cast<const uint8_t*>(data), size};
}

// A descriptor may say that more follows it; the library then reads that too.
void check_descriptor(const std::vector<uint8_t>& blob, size_t base, bool extended,
                      const char* what) {
  const auto fail = [what] {
    throw RunError(std::string("the peer sent a damaged descriptor of its ") + what);
  };
  if (blob.size() < base) fail();
  if (!extended) return;
  urma_ext_t extension;
  if (blob.size() < base + sizeof(extension)) fail();
  std::memcpy(&extension, blob.data() + base, sizeof(extension));
  if (extension.length > blob.size() - base - sizeof(extension)) fail();
}

urma_seg_t* segment_of(std::vector<uint8_t>& blob) {
  if (blob.size() < sizeof(urma_seg_t))
    check_descriptor(blob, sizeof(urma_seg_t), false, "segment");
  auto* const seg = reinterpret_cast<urma_seg_t*>(blob.data());
  check_descriptor(blob, sizeof(urma_seg_t), seg->attr.bs.has_user_info, "segment");
  return seg;
}

urma_rjetty_t* jetty_of(std::vector<uint8_t>& blob) {
  if (blob.size() < sizeof(urma_rjetty_t)) {
    check_descriptor(blob, sizeof(urma_rjetty_t), false, "jetty");
  }
  auto* const jetty = reinterpret_cast<urma_rjetty_t*>(blob.data());
  check_descriptor(blob, sizeof(urma_rjetty_t), jetty->flag.bs.has_user_info, "jetty");
  return jetty;
}

std::vector<uint8_t> swap_segment(Exchange& exchange, urma_target_seg_t* segment, size_t pair) {
  urma_seg_t* seg = nullptr;
  uint32_t size = 0;
  ok(urma_get_seg_ctx(segment, &seg, &size), "urma_get_seg_ctx");
  const std::unique_ptr<urma_seg_t, void (*)(urma_seg_t*)> owner(seg, urma_put_seg_ctx);
  return exchange.sync_blob(bytes_of(seg, size), pair);
}

std::vector<uint8_t> swap_jetty(Exchange& exchange, urma_jetty_t* jetty, size_t pair) {
  urma_rjetty_t* rjetty = nullptr;
  uint32_t size = 0;
  ok(urma_get_rjetty(jetty, &rjetty, &size), "urma_get_rjetty");
  const std::unique_ptr<urma_rjetty_t, void (*)(urma_rjetty_t*)> owner(rjetty, urma_put_rjetty);
  return exchange.sync_blob(bytes_of(rjetty, size), pair);
}

urma_token_t token() { return {kTokenValue}; }

}  // namespace

Links::Links(const Device& device, const Config& config, const Queues& queues, const Memory& memory,
             const Words* credit, const Words* notify, Exchange& exchange)
    : links_(config.jettys) {
  const Parts parts = {device, config, queues, memory, exchange};
  std::vector<Offer> offers = config.duplex() ? swap_jettys(parts) : swap_queues(parts);
  std::vector<urma_seg_t> credits, notifies;
  if (credit != nullptr) credits = swap_words(parts, *credit);
  if (notify != nullptr) notifies = swap_words(parts, *notify);
  if (config.tp_aware) swap_channels(parts, offers);
  import_segments(parts, offers);
  if (credit != nullptr) import_words(parts, credits, &Link::credit);
  if (notify != nullptr) import_words(parts, notifies, &Link::notify);
  if (config.async_import && config.duplex()) {
    import_in_background(parts, offers);
  } else {
    import_targets(parts, offers);
  }
  if (config.mode == URMA_TM_RC) {
    if (notifier_) {
      bind_in_background(parts);
    } else {
      bind(parts, offers);
    }
  }
}

Links::~Links() {
  for (urma_jetty_t* jetty : bound_) {
    (void)(notifier_ ? urma_unbind_jetty_async(jetty) : urma_unbind_jetty(jetty));
  }
}

std::vector<Links::Offer> Links::swap_jettys(const Parts& parts) {
  std::vector<Offer> offers(parts.config.jettys);
  for (uint32_t lane = 0; lane < parts.config.jettys; lane++) {
    const size_t pair = pair_of(parts.config, lane);
    offers[lane].segment = swap_segment(parts.exchange, parts.memory.segment(lane), pair);
    offers[lane].jetty = swap_jetty(parts.exchange, parts.queues.jetty(lane), pair);
    const urma_rjetty_t* jetty = jetty_of(offers[lane].jetty);
    if (jetty->trans_mode != parts.config.mode || jetty->type != URMA_JETTY) {
      throw RunError("the peer's jetty has another transport mode");
    }
    offers[lane].receive_queue = jetty->jetty_id;
  }
  return offers;
}

std::vector<Links::Offer> Links::swap_queues(const Parts& parts) {
  std::vector<Offer> offers(parts.config.jettys);
  const uint32_t lanes = lanes_of_pair(parts.config);
  for (uint32_t first = 0; first < parts.config.jettys; first += lanes) {
    const size_t pair = pair_of(parts.config, first);
    std::vector<urma_seg_t> segments(lanes);
    std::vector<urma_jfr_id_t> ids(lanes);
    for (uint32_t i = 0; i < lanes; i++) {
      segments[i] = parts.memory.segment(first + i)->seg;
      const uint32_t index = parts.queues.receive_index(first + i);
      ids[i] = parts.queues.receive_queue(index)->jfr_id;
    }
    parts.exchange.sync_data(segments.data(), segments.data(), lanes * sizeof(urma_seg_t), pair);
    parts.exchange.sync_data(ids.data(), ids.data(), lanes * sizeof(urma_jfr_id_t), pair);
    for (uint32_t i = 0; i < lanes; i++) {
      const auto bytes = bytes_of(&segments[i], sizeof(urma_seg_t));
      offers[first + i].segment.assign(bytes.begin(), bytes.end());
      offers[first + i].receive_queue = ids[i];
    }
  }
  return offers;
}

std::vector<urma_seg_t> Links::swap_words(const Parts& parts, const Words& words) {
  std::vector<urma_seg_t> peers;
  for (size_t pair = 0; pair < parts.exchange.pairs(); pair++) {
    urma_seg_t seg = words.region(pair).segment()->seg;
    parts.exchange.sync_data(&seg, &seg, sizeof(seg), pair);
    const uint64_t needed = uint64_t{words.word_bytes()} * words.lanes();
    if (seg.len < needed || seg.attr.bs.has_user_info) {
      throw RunError("the peer sent a damaged descriptor of its credit or notify segment");
    }
    peers.push_back(seg);
  }
  return peers;
}

void Links::swap_channels(const Parts& parts, std::vector<Offer>& offers) {
  std::random_device random;
  for (uint32_t lane = 0; lane < offers.size(); lane++) {
    Offer& offer = offers[lane];
    if (parts.config.tp_reuse && lane > 0 && !parts.config.pairs) {
      offer.channel = offers[0].channel;
      continue;
    }
    urma_get_tp_cfg_t cfg = {};
    const urma_tp_type_t type = parts.device.channel_type();
    cfg.flag.bs.rtp = type == URMA_RTP;
    cfg.flag.bs.ctp = type == URMA_CTP;
    cfg.flag.bs.utp = type == URMA_UTP;
    cfg.trans_mode = parts.config.mode;
    cfg.local_eid = parts.device.context()->eid;
    cfg.peer_eid = offer.receive_queue.eid;
    urma_tp_info_t found = {};
    uint32_t count = 1;
    ok(urma_get_tp_list(parts.device.context(), &cfg, &count, &found), "urma_get_tp_list");
    if (count == 0) throw RunError("urma_get_tp_list found no channel to the peer");
    offer.channel.tp_handle = found.tp_handle;
    if (type != URMA_RTP) continue;
    ChannelInfo info = {found.tp_handle, random(), 0};
    offer.channel.tp_attr.tx_psn = info.first_packet;
    parts.exchange.sync_data(&info, &info, sizeof(info), pair_of(parts.config, lane));
    offer.channel.peer_tp_handle = info.handle;
    offer.channel.tp_attr.rx_psn = info.first_packet;
  }
}

urma_target_seg_t* Links::import_segment(const Parts& parts, urma_seg_t* seg) {
  urma_token_t value = token();
  const urma_import_seg_flag_t flag = {};
  segments_.emplace_back(
      made(urma_import_seg(parts.device.context(), seg, &value, 0, flag), "urma_import_seg"));
  return segments_.back().get();
}

void Links::import_segments(const Parts& parts, const std::vector<Offer>& offers) {
  const Config& config = parts.config;
  const uint64_t needed = parts.memory.shared_bytes();
  for (uint32_t lane = 0; lane < offers.size(); lane++) {
    Blob blob = offers[lane].segment;
    urma_seg_t* const seg = segment_of(blob);
    // Without --seg_pre_jetty the lanes of a peer lie in one segment.
    const bool again = lane > 0 && !config.pairs && blob == offers[lane - 1].segment;
    Link& link = links_[lane];
    link.segment = again ? links_[lane - 1].segment : import_segment(parts, seg);
    link.remote_id = offers[lane].receive_queue.id;
    uint64_t offset = parts.memory.in_offset(config.pairs ? 0 : lane);
    const uint64_t length = parts.memory.slots() * parts.memory.slot_bytes();
    // Another tool may keep less memory: one buffer for all, if it must be.
    if (offset > seg->len || seg->len - offset < length) offset = seg->len >= needed ? length : 0;
    if (seg->len < length) {
      throw RunError("the peer's segment has " + std::to_string(seg->len) + " bytes, " +
                     std::to_string(needed) + " are needed");
    }
    link.in = seg->ubva.va + offset;
  }
}

void Links::import_words(const Parts& parts, const std::vector<urma_seg_t>& peers,
                         urma_target_seg_t* Link::*member) {
  std::vector<urma_target_seg_t*> imported;
  imported.reserve(peers.size());
  for (urma_seg_t seg : peers) imported.push_back(import_segment(parts, &seg));
  for (uint32_t lane = 0; lane < links_.size(); lane++) {
    links_[lane].*member = imported[pair_of(parts.config, lane)];
  }
}

void Links::import_targets(const Parts& parts, std::vector<Offer>& offers) {
  const Config& config = parts.config;
  urma_context_t* const context = parts.device.context();
  urma_token_t value = token();
  for (uint32_t lane = 0; lane < offers.size(); lane++) {
    Offer& offer = offers[lane];
    if (config.duplex()) {
      urma_rjetty_t* const jetty = jetty_of(offer.jetty);
      jetty->tp_type = parts.device.channel_type();
      targets_.emplace_back(
          made(config.tp_aware ? urma_import_jetty_ex(context, jetty, &value, &offer.channel)
                               : urma_import_jetty(context, jetty, &value),
               "urma_import_jetty"),
          urma_unimport_jetty);
    } else {
      urma_rjfr_t jfr = {};
      jfr.jfr_id = offer.receive_queue;
      jfr.trans_mode = config.mode;
      jfr.flag.bs.token_policy = config.token_policy;
      jfr.flag.bs.order_type = config.order_type;
      jfr.tp_type = parts.device.channel_type();
      targets_.emplace_back(
          made(config.tp_aware ? urma_import_jfr_ex(context, &jfr, &value, &offer.channel)
                               : urma_import_jfr(context, &jfr, &value),
               "urma_import_jfr"),
          urma_unimport_jfr);
    }
    links_[lane].target = targets_.back().get();
  }
}

void Links::import_in_background(const Parts& parts, std::vector<Offer>& offers) {
  notifier_.reset(made(urma_create_notifier(parts.device.context()), "urma_create_notifier"));
  const urma_token_t value = token();
  for (uint32_t lane = 0; lane < offers.size(); lane++) {
    urma_rjetty_t* const jetty = jetty_of(offers[lane].jetty);
    jetty->tp_type = parts.device.channel_type();
    links_[lane].target =
        made(urma_import_jetty_async(notifier_.get(), jetty, &value, lane, kImportTimeoutMs),
             "urma_import_jetty_async");
  }
  await(parts, static_cast<uint32_t>(offers.size()));
}

void Links::bind(const Parts& parts, const std::vector<Offer>& offers) {
  for (uint32_t lane = 0; lane < links_.size(); lane++) {
    urma_jetty_t* const jetty = parts.queues.jetty(lane);
    urma_bind_jetty_ex_cfg_t channel = offers[lane].channel;
    ok(parts.config.tp_aware ? urma_bind_jetty_ex(jetty, links_[lane].target, &channel)
                             : urma_bind_jetty(jetty, links_[lane].target),
       "urma_bind_jetty");
    bound_.push_back(jetty);
  }
}

void Links::bind_in_background(const Parts& parts) {
  for (uint32_t lane = 0; lane < links_.size(); lane++) {
    urma_jetty_t* const jetty = parts.queues.jetty(lane);
    ok(urma_bind_jetty_async(notifier_.get(), jetty, links_[lane].target, lane, kImportTimeoutMs),
       "urma_bind_jetty_async");
    bound_.push_back(jetty);
  }
  await(parts, static_cast<uint32_t>(links_.size()));
}

// An import that failed is gone once it was reported, and those under way end with the notifier.
void Links::await(const Parts& parts, uint32_t count) {
  std::vector<urma_notify_t> notify(count);
  uint32_t done = 0;
  while (done < count) {
    const int n = urma_wait_notify(notifier_.get(), count - done, notify.data(), kNotifySliceMs);
    if (n < 0) fail_errno("urma_wait_notify");
    for (int i = 0; i < n; i++) {
      const bool import = notify[i].type == URMA_IMPORT_JETTY_NOTIFY;
      ok(notify[i].status, import ? "urma_import_jetty_async" : "urma_bind_jetty_async");
      if (import) targets_.emplace_back(notify[i].tjetty, urma_unimport_jetty_async);
    }
    done += static_cast<uint32_t>(n);
    if (n == 0) parts.exchange.check_peer();
  }
}

}  // namespace perftest
