// SPDX-License-Identifier: MIT
#include "test/verbs/fake_verbs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "test/verbs/fake_verbs_state.h"

namespace urma::verbs {
namespace {

// Verbs that can fail.
constexpr const char* kVerbs[] = {
    "get_device_list", "open_device",     "close_device",
    "query_device_ex", "query_port",      "query_gid_table",
    "fork_init",       "get_async_event", "alloc_pd",
    "dealloc_pd",      "reg_mr",          "reg_dmabuf_mr",
    "rereg_mr",        "dereg_mr",        "create_comp_channel",
    "create_cq",       "resize_cq",       "destroy_comp_channel",
    "destroy_cq",      "poll_cq",         "req_notify_cq",
    "get_cq_event",    "create_srq",      "modify_srq",
    "query_srq",       "destroy_srq",     "post_srq_recv",
    "create_qp",       "modify_qp",       "query_qp",
    "destroy_qp",      "post_send",       "post_recv",
    "create_ah",       "destroy_ah",      "cm_create_event_channel",
    "cm_create_id",    "cm_destroy_id",   "cm_bind_addr",
    "cm_listen",       "cm_resolve_addr", "cm_resolve_route",
    "cm_connect",      "cm_accept",       "cm_reject",
    "cm_get_event",    "cm_ack_event",    "send_datagram",
};

}  // namespace

FakeFabric* FakeFabric::current = nullptr;

FakeDevice* FakeFabric::device(const std::string& name) {
  for (const auto& device : devices) {
    if (name == device->name) return device.get();
  }
  ADD_FAILURE() << "there is no device " << name;
  return devices.front().get();
}

FakeQp* FakeFabric::queue_pair(uint32_t qp_num) {
  const auto found = queue_pairs.find(qp_num);
  return found == queue_pairs.end() ? nullptr : found->second;
}

FakeCall::FakeCall(const char* verb) : lock_(FakeFabric::current->mutex) {
  auto& fabric = *FakeFabric::current;
  const uint64_t number = ++fabric.calls[verb];
  auto& failures = fabric.failures[verb];
  const auto failing = std::find_if(failures.begin(), failures.end(),
                                    [&](const auto& failure) { return failure.at == number; });
  if (failing == failures.end()) return;
  error_ = failing->error;
  failures.erase(failing);
}

std::nullptr_t fake_null(int error) {
  errno = error;
  return nullptr;
}

FakeVerbs::FakeVerbs() : api_(), fabric_(std::make_unique<FakeFabric>()) {
  EXPECT_EQ(FakeFabric::current, nullptr) << "there is another FakeVerbs already";
  FakeFabric::current = fabric_.get();
  fill_fake_devices(&api_);
  fill_fake_completions(&api_);
  fill_fake_queues(&api_);
  fill_fake_cm(&api_);
  fill_fake_datagrams(&api_);
}

FakeVerbs::~FakeVerbs() {
  EXPECT_EQ(fabric_->objects, 0U) << "verbs objects that were not ended";
  FakeFabric::current = nullptr;
}

void FakeVerbs::add_device(const FakeDeviceOptions& options) {
  const FakeLock lock(fabric_->mutex);
  auto device = std::make_unique<FakeDevice>();
  options.name.copy(device->name, sizeof(device->name) - 1);
  device->node_type = options.iwarp ? IBV_NODE_RNIC : IBV_NODE_CA;
  device->transport_type = options.iwarp ? IBV_TRANSPORT_IWARP : IBV_TRANSPORT_IB;
  device->options = options;
  fabric_->devices.push_back(std::move(device));
}

void FakeVerbs::set_gids(const std::string& device, const std::vector<FakeGid>& gids) {
  const FakeLock lock(fabric_->mutex);
  fabric_->device(device)->options.gids = gids;
}

void FakeVerbs::set_port_state(const std::string& device, ibv_port_state state) {
  const FakeLock lock(fabric_->mutex);
  fabric_->device(device)->options.port_state = state;
}

void FakeVerbs::set_lid(const std::string& device, uint16_t lid) {
  const FakeLock lock(fabric_->mutex);
  fabric_->device(device)->options.lid = lid;
}

void FakeVerbs::set_open_error(const std::string& device, int error) {
  const FakeLock lock(fabric_->mutex);
  fabric_->device(device)->open_error = error;
}

void FakeVerbs::set_list_error(int error) {
  const FakeLock lock(fabric_->mutex);
  fabric_->list_error = error;
}

void FakeVerbs::fail(const std::string& verb, int error, uint64_t nth) {
  const FakeLock lock(fabric_->mutex);
  ASSERT_NE(std::find(std::begin(kVerbs), std::end(kVerbs), verb), std::end(kVerbs))
      << verb << " cannot fail, or is not a verb";
  fabric_->failures[verb].push_back({fabric_->calls[verb] + nth, error});
}

uint64_t FakeVerbs::calls(const std::string& verb) const {
  const FakeLock lock(fabric_->mutex);
  const auto found = fabric_->calls.find(verb);
  return found == fabric_->calls.end() ? 0 : found->second;
}

void FakeVerbs::stall(uint32_t qp_num) {
  const FakeLock lock(fabric_->mutex);
  if (auto* qp = fabric_->queue_pair(qp_num)) qp->stalled = true;
}

void FakeVerbs::resume(uint32_t qp_num) {
  const FakeLock lock(fabric_->mutex);
  if (auto* qp = fabric_->queue_pair(qp_num)) qp->stalled = false;
  fabric_->kick();
}

void FakeVerbs::stall_all() {
  const FakeLock lock(fabric_->mutex);
  fabric_->stall_all = true;
  for (const auto& [number, qp] : fabric_->queue_pairs) qp->stalled = true;
}

void FakeVerbs::resume_all() {
  const FakeLock lock(fabric_->mutex);
  fabric_->stall_all = false;
  for (const auto& [number, qp] : fabric_->queue_pairs) qp->stalled = false;
  fabric_->kick();
}

void FakeVerbs::hold(uint32_t qp_num) {
  const FakeLock lock(fabric_->mutex);
  if (auto* qp = fabric_->queue_pair(qp_num)) qp->held = true;
}

void FakeVerbs::release(uint32_t qp_num) {
  const FakeLock lock(fabric_->mutex);
  auto* qp = fabric_->queue_pair(qp_num);
  if (qp == nullptr) return;
  qp->held = false;
  for (const auto& completion : std::exchange(qp->held_completions, {})) {
    fabric_->complete(static_cast<FakeCq*>(qp->send_cq), completion);
  }
  fabric_->kick();
}

void FakeVerbs::fail_request(uint32_t qp_num, ibv_wc_status status) {
  const FakeLock lock(fabric_->mutex);
  if (auto* qp = fabric_->queue_pair(qp_num)) qp->forced = status;
}

void FakeVerbs::set_reachable(const std::string& device, bool reachable) {
  const FakeLock lock(fabric_->mutex);
  fabric_->device(device)->reachable = reachable;
}

void FakeVerbs::set_manual_rnr(bool manual) {
  const FakeLock lock(fabric_->mutex);
  fabric_->manual_rnr = manual;
}

void FakeVerbs::fire_rnr_timers() {
  const FakeLock lock(fabric_->mutex);
  for (const auto& [number, qp] : fabric_->queue_pairs) {
    if (qp->rnr_left) --*qp->rnr_left;
  }
  fabric_->kick();
}

void FakeVerbs::raise_port_event(const std::string& device, ibv_event_type type, int port) {
  const FakeLock lock(fabric_->mutex);
  ibv_async_event event = {};
  event.event_type = type;
  event.element.port_num = port;
  for (auto* context : fabric_->device(device)->contexts) fabric_->raise(context, event);
}

void FakeVerbs::raise_qp_event(uint32_t qp_num, ibv_event_type type) {
  const FakeLock lock(fabric_->mutex);
  if (auto* qp = fabric_->queue_pair(qp_num)) fabric_->raise(qp, type);
}

void FakeVerbs::raise_cq_event(ibv_cq* cq, ibv_event_type type) {
  const FakeLock lock(fabric_->mutex);
  fabric_->raise(static_cast<FakeCq*>(cq), type);
}

void FakeVerbs::raise_srq_event(ibv_srq* srq, ibv_event_type type) {
  const FakeLock lock(fabric_->mutex);
  fabric_->raise(static_cast<FakeSrq*>(srq), type);
}

void FakeVerbs::set_reuse_numbers(bool reuse) {
  const FakeLock lock(fabric_->mutex);
  fabric_->reuse_numbers = reuse;
}

void FakeVerbs::set_clean_on_destroy(bool clean) {
  const FakeLock lock(fabric_->mutex);
  fabric_->clean_on_destroy = clean;
}

uint32_t FakeVerbs::gid_index_of(uint32_t qp_num) const {
  const FakeLock lock(fabric_->mutex);
  const auto* qp = fabric_->queue_pair(qp_num);
  return qp == nullptr ? UINT32_MAX : qp->attr.ah_attr.grh.sgid_index;
}

uint64_t FakeVerbs::locked_bytes() const {
  const FakeLock lock(fabric_->mutex);
  return fabric_->locked_bytes;
}

void FakeVerbs::set_locked_limit(uint64_t bytes) {
  const FakeLock lock(fabric_->mutex);
  fabric_->locked_limit = bytes;
}

int FakeVerbs::access_of_rkey(uint32_t rkey) const {
  const FakeLock lock(fabric_->mutex);
  const auto found = fabric_->remote_keys.find(rkey);
  return found == fabric_->remote_keys.end() ? 0 : found->second->access;
}

int FakeVerbs::access_of_lkey(uint32_t lkey) const {
  const FakeLock lock(fabric_->mutex);
  const auto found = fabric_->local_keys.find(lkey);
  return found == fabric_->local_keys.end() ? 0 : found->second->access;
}

uint64_t FakeVerbs::objects() const {
  const FakeLock lock(fabric_->mutex);
  return fabric_->objects;
}

std::vector<uint32_t> FakeVerbs::queue_pairs() const {
  const FakeLock lock(fabric_->mutex);
  std::vector<uint32_t> numbers;
  for (const auto& [number, qp] : fabric_->queue_pairs) numbers.push_back(number);
  return numbers;
}

}  // namespace urma::verbs
