// SPDX-License-Identifier: MIT
#include "tools/perftest/connect.h"

#include <algorithm>
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

// A descriptor may announce more data after it, which the library then reads too.
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

// Data for the provider could name a jetty of this process, so none comes from a peer.
urma_rjetty_t* jetty_of(std::vector<uint8_t>& blob) {
  if (blob.size() < sizeof(urma_rjetty_t)) {
    check_descriptor(blob, sizeof(urma_rjetty_t), false, "jetty");
  }
  auto* const jetty = reinterpret_cast<urma_rjetty_t*>(blob.data());
  check_descriptor(blob, sizeof(urma_rjetty_t), jetty->flag.bs.has_user_info, "jetty");
  jetty->flag.bs.has_drv_ext = 0;
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
    : device_(device),
      config_(config),
      queues_(queues),
      memory_(memory),
      exchange_(exchange),
      links_(config.jettys) {
  const std::vector<Blob> segments = config.duplex() ? swap_segment_contexts() : swap_segments();
  std::vector<Offer> offers = swap_targets();
  std::vector<urma_seg_t> credits, notifies;
  if (credit != nullptr) credits = swap_words(*credit);
  if (notify != nullptr) notifies = swap_words(*notify);
  if (config.tp_aware) swap_channels(offers);
  import_segments(segments);
  import_words(credits, &Link::credit);
  import_words(notifies, &Link::notify);
  connect(offers);
}

Links::~Links() { disconnect(); }

void Links::connect(std::vector<Offer>& offers) {
  const bool background = config_.async_import && config_.duplex();
  for (uint32_t lane = 0; lane < offers.size(); lane++) {
    links_[lane].remote_id = offers[lane].receive_queue.id;
  }
  background ? import_in_background(offers) : import_targets(offers);
  if (config_.mode == URMA_TM_RC) background ? bind_in_background() : bind(offers);
  if (config_.tp_aware) exchange_.sync_time("tp aware connect finished");
}

void Links::disconnect() {
  for (urma_jetty_t* jetty : bound_) {
    (void)(notifier_ ? urma_unbind_jetty_async(jetty) : urma_unbind_jetty(jetty));
  }
  bound_.clear();
  targets_.clear();
  notifier_.reset();
}

void Links::reconnect() {
  std::vector<Offer> offers = swap_targets();
  if (config_.tp_aware) swap_channels(offers);
  connect(offers);
}

std::vector<Links::Blob> Links::swap_segment_contexts() {
  std::vector<Blob> segments;
  for (uint32_t lane = 0; lane < config_.jettys; lane++) {
    segments.push_back(swap_segment(exchange_, memory_.segment(lane), pair_of(config_, lane)));
  }
  return segments;
}

// A structure for each lane; each peer gets an array.
template <typename T>
std::vector<T> Links::swap_array(const std::function<T(uint32_t lane)>& own) {
  std::vector<T> all(config_.jettys);
  for (uint32_t lane = 0; lane < config_.jettys; lane++) all[lane] = own(lane);
  const uint32_t lanes = lanes_of_pair(config_);
  for (uint32_t first = 0; first < config_.jettys; first += lanes) {
    exchange_.sync_data(&all[first], &all[first], lanes * sizeof(T), pair_of(config_, first));
  }
  return all;
}

std::vector<Links::Blob> Links::swap_segments() {
  std::vector<Blob> segments;
  const auto own = [this](uint32_t lane) { return memory_.segment(lane)->seg; };
  for (const urma_seg_t& seg : swap_array<urma_seg_t>(own)) {
    const auto bytes = bytes_of(&seg, sizeof(seg));
    segments.emplace_back(bytes.begin(), bytes.end());
  }
  return segments;
}

std::vector<Links::Offer> Links::swap_targets() {
  std::vector<Offer> offers(config_.jettys);
  if (!config_.duplex()) {
    const auto own = [this](uint32_t lane) {
      return queues_.receive_queue(queues_.receive_index(lane))->jfr_id;
    };
    const std::vector<urma_jfr_id_t> ids = swap_array<urma_jfr_id_t>(own);
    for (uint32_t lane = 0; lane < config_.jettys; lane++) offers[lane].receive_queue = ids[lane];
    return offers;
  }
  for (uint32_t lane = 0; lane < config_.jettys; lane++) {
    offers[lane].jetty = swap_jetty(exchange_, queues_.jetty(lane), pair_of(config_, lane));
    const urma_rjetty_t* jetty = jetty_of(offers[lane].jetty);
    if (jetty->trans_mode != config_.mode || jetty->type != URMA_JETTY) {
      throw RunError("the peer's jetty has another transport mode");
    }
    offers[lane].receive_queue = jetty->jetty_id;
  }
  return offers;
}

std::vector<urma_seg_t> Links::swap_words(const Words& words) {
  const auto own = [&words](uint32_t lane) { return words.segment(lane)->seg; };
  std::vector<urma_seg_t> peers = swap_array<urma_seg_t>(own);
  for (const urma_seg_t& seg : peers) {
    if (seg.len < words.offset() + sizeof(uint64_t) || seg.attr.bs.has_user_info) {
      throw RunError("the peer sent a damaged descriptor of its credit or notify segment");
    }
  }
  return peers;
}

void Links::swap_channels(std::vector<Offer>& offers) {
  std::random_device random;
  for (uint32_t lane = 0; lane < offers.size(); lane++) {
    Offer& offer = offers[lane];
    if (config_.tp_reuse && lane > 0 && !config_.pairs) {
      offer.channel = offers[0].channel;
      continue;
    }
    urma_get_tp_cfg_t cfg = {};
    const urma_tp_type_t type = device_.channel_type();
    cfg.flag.bs.rtp = type == URMA_RTP;
    cfg.flag.bs.ctp = type == URMA_CTP;
    cfg.flag.bs.utp = type == URMA_UTP;
    cfg.trans_mode = config_.mode;
    cfg.local_eid = device_.context()->eid;
    cfg.peer_eid = offer.receive_queue.eid;
    urma_tp_info_t found = {};
    uint32_t count = 1;
    ok(urma_get_tp_list(device_.context(), &cfg, &count, &found), "urma_get_tp_list");
    if (count == 0) throw RunError("urma_get_tp_list found no channel to the peer");
    offer.channel.tp_handle = found.tp_handle;
    if (type != URMA_RTP) continue;
    ChannelInfo info = {found.tp_handle, random(), 0};
    offer.channel.tp_attr.tx_psn = info.first_packet;
    exchange_.sync_data(&info, &info, sizeof(info), pair_of(config_, lane));
    offer.channel.peer_tp_handle = info.handle;
    offer.channel.tp_attr.rx_psn = info.first_packet;
  }
}

urma_target_seg_t* Links::import_segment(urma_seg_t* seg) {
  urma_token_t value = token();
  const urma_import_seg_flag_t flag = {};
  segments_.emplace_back(
      made(urma_import_seg(device_.context(), seg, &value, 0, flag), "urma_import_seg"));
  return segments_.back().get();
}

void Links::import_segments(const std::vector<Blob>& segments) {
  for (uint32_t lane = 0; lane < segments.size(); lane++) {
    Blob blob = segments[lane];
    urma_seg_t* const seg = segment_of(blob);
    // Without --seg_pre_jetty the lanes of a peer lie in one segment.
    const bool again = lane > 0 && !config_.pairs && blob == segments[lane - 1];
    Link& link = links_[lane];
    link.segment = again ? links_[lane - 1].segment : import_segment(seg);
    link.in = seg->ubva.va + in_offset(lane, seg->len);
  }
}

// The offset of a lane's arrivals in a segment of `length` bytes, in the first half. UMDK's slots
// are smaller if the size is not a multiple of pages.
uint64_t Links::in_offset(uint32_t lane, uint64_t length) const {
  const bool own = config_.segment_per_jetty || config_.pairs;
  const uint64_t apart = std::min(memory_.lane_bytes(), length / (own ? 2 : 2 * config_.jettys));
  const uint64_t offset = own ? 0 : lane * apart;
  const uint64_t needed = (memory_.slots() - 1) * memory_.slot_bytes() + config_.sizes().back();
  if (length < offset + needed) {
    throw RunError("the peer's segment has " + std::to_string(length) + " bytes, " +
                   std::to_string(offset + needed) + " are needed");
  }
  return offset;
}

void Links::import_words(std::vector<urma_seg_t>& peers, urma_target_seg_t* Link::*member) {
  for (uint32_t lane = 0; lane < peers.size(); lane++) {
    links_[lane].*member = import_segment(&peers[lane]);
  }
}

void Links::import_targets(std::vector<Offer>& offers) {
  urma_context_t* const context = device_.context();
  urma_token_t value = token();
  for (uint32_t lane = 0; lane < offers.size(); lane++) {
    Offer& offer = offers[lane];
    if (config_.duplex()) {
      urma_rjetty_t* const jetty = jetty_of(offer.jetty);
      jetty->tp_type = device_.channel_type();
      targets_.emplace_back(
          made(config_.tp_aware ? urma_import_jetty_ex(context, jetty, &value, &offer.channel)
                                : urma_import_jetty(context, jetty, &value),
               "urma_import_jetty"),
          urma_unimport_jetty);
    } else {
      urma_rjfr_t jfr = {};
      jfr.jfr_id = offer.receive_queue;
      jfr.trans_mode = config_.mode;
      jfr.flag.bs.token_policy = config_.token_policy;
      jfr.flag.bs.order_type = config_.order_type;
      jfr.tp_type = device_.channel_type();
      targets_.emplace_back(
          made(config_.tp_aware ? urma_import_jfr_ex(context, &jfr, &value, &offer.channel)
                                : urma_import_jfr(context, &jfr, &value),
               "urma_import_jfr"),
          urma_unimport_jfr);
    }
    links_[lane].target = targets_.back().get();
  }
}

void Links::import_in_background(std::vector<Offer>& offers) {
  notifier_.reset(made(urma_create_notifier(device_.context()), "urma_create_notifier"));
  const urma_token_t value = token();
  for (uint32_t lane = 0; lane < offers.size(); lane++) {
    urma_rjetty_t* const jetty = jetty_of(offers[lane].jetty);
    jetty->tp_type = device_.channel_type();
    links_[lane].target =
        made(urma_import_jetty_async(notifier_.get(), jetty, &value, lane, kImportTimeoutMs),
             "urma_import_jetty_async");
  }
  await(static_cast<uint32_t>(offers.size()));
}

void Links::bind(const std::vector<Offer>& offers) {
  for (uint32_t lane = 0; lane < links_.size(); lane++) {
    urma_jetty_t* const jetty = queues_.jetty(lane);
    urma_bind_jetty_ex_cfg_t channel = offers[lane].channel;
    ok(config_.tp_aware ? urma_bind_jetty_ex(jetty, links_[lane].target, &channel)
                        : urma_bind_jetty(jetty, links_[lane].target),
       "urma_bind_jetty");
    bound_.push_back(jetty);
  }
}

void Links::bind_in_background() {
  for (uint32_t lane = 0; lane < links_.size(); lane++) {
    urma_jetty_t* const jetty = queues_.jetty(lane);
    ok(urma_bind_jetty_async(notifier_.get(), jetty, links_[lane].target, lane, kImportTimeoutMs),
       "urma_bind_jetty_async");
    bound_.push_back(jetty);
  }
  await(static_cast<uint32_t>(links_.size()));
}

// A failed import is gone once reported; those in flight end with the notifier.
void Links::await(uint32_t count) {
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
    if (n == 0) exchange_.check_peer();
  }
}

}  // namespace perftest
