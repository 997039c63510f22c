// SPDX-License-Identifier: MIT
#include "test/verbs/data_path.h"

#include <poll.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <thread>

#include "test/process/configs.h"

namespace urma::verbs {

bool HandService::turn() {
  std::vector<Task> due;
  {
    const std::lock_guard lock(mutex_);
    due.swap(tasks_);
  }
  for (const auto& [fd, ready] : std::map(watched_)) {
    pollfd here = {fd, POLLIN, 0};
    if (::poll(&here, 1, 0) == 1) ready(POLLIN);
  }
  const uint64_t now = monotonic_ns();
  for (auto timer = timers_.begin(); timer != timers_.end();) {
    if (timer->second.first > now) {
      ++timer;
    } else {
      due.push_back(std::move(timer->second.second));
      timer = timers_.erase(timer);
    }
  }
  for (const Task& task : due) task();
  return !due.empty();
}

TestJfc::TestJfc(urma_context_t* ctx, const urma_jfc_cfg_t& cfg, urma::Transport* transport,
                 AsyncEvents* events, EventChannel* channel)
    : CompletionQueue(ctx, cfg, transport, events) {
  open();
  if (channel != nullptr) raise_at(channel, &bell_of_its_own_, 0);
}

TestJfc::~TestJfc() {
  end_events();
  close();
}

Fabric::Fabric(const FakeDeviceOptions& options, uint32_t most_connections)
    : Fabric(real_device() == nullptr ? std::make_unique<FakeVerbs>() : nullptr, options,
             most_connections) {}

Fabric::~Fabric() {
  service.settle();
  transport.stop();
  service.settle();
  connector.close();
}

std::unique_ptr<TestJfc> Fabric::make_jfc(uint32_t depth, EventChannel* channel) {
  urma_jfc_cfg_t cfg = urma_test::jfc_config(depth);
  cfg.flag.bs.lock_free = 1;
  return std::make_unique<TestJfc>(&ctx, cfg, &transport, &events, channel);
}

urma_jfs_cfg_t Fabric::jfs_cfg(TestJfc* jfc, uint32_t depth) {
  urma_jfs_cfg_t cfg = {};
  cfg.depth = depth;
  cfg.flag.bs.lock_free = 1;
  cfg.trans_mode = URMA_TM_RM;
  cfg.max_sge = 4;
  cfg.max_inline_data = 64;
  cfg.rnr_retry = 7;
  cfg.err_timeout = 14;
  cfg.jfc = jfc;
  return cfg;
}

urma_jfr_cfg_t Fabric::jfr_cfg(TestJfc* jfc, uint32_t depth) {
  urma_jfr_cfg_t cfg = {};
  cfg.depth = depth;
  cfg.flag.bs.lock_free = 1;
  cfg.trans_mode = URMA_TM_RM;
  cfg.max_sge = 4;
  cfg.min_rnr_timer = 1;
  cfg.jfc = jfc;
  return cfg;
}

std::unique_ptr<RemoteQueue> Fabric::import(uint32_t id, urma_transport_mode_t mode) {
  auto queue = std::make_unique<RemoteQueue>();
  static_cast<urma_target_jetty_t&>(*queue) = {};
  queue->id.id = id;
  queue->id.eid = eid;
  queue->trans_mode = mode;
  queue->type = URMA_JFR;
  queue->transport = &transport;
  queue->token = {0};
  queue->serial = transport.next_serial();
  return queue;
}

std::vector<urma_cr_t> Fabric::poll(TestJfc* jfc, size_t count) {
  constexpr uint64_t kPatienceNs = 20'000'000'000;
  const uint64_t deadline = monotonic_ns() + kPatienceNs;
  std::vector<urma_cr_t> all;
  while (all.size() < count && monotonic_ns() < deadline) {
    settle();
    urma_cr_t records[16];
    const auto room = static_cast<int>(std::min<size_t>(16, count - all.size()));
    const int got = jfc->poll(room, records);
    all.insert(all.end(), records, records + got);
    if (got == 0) std::this_thread::yield();
  }
  EXPECT_EQ(all.size(), count);
  all.resize(count);
  return all;
}

Fabric::Fabric(std::unique_ptr<FakeVerbs> verbs, const FakeDeviceOptions& options,
               uint32_t most_connections)
    : fake(std::move(verbs)), connections(&service, most_connections) {
  const Api* api = real_verbs();
  if (fake != nullptr) {
    fake->add_device(options);
    api = fake->api();
  }
  std::string why;
  std::vector<DeviceInfo> found = find_devices(*api, &why);
  if (fake == nullptr) {
    std::erase_if(found, [](const DeviceInfo& info) { return info.name != real_device(); });
  }
  if (found.empty()) throw std::runtime_error("no device: " + why);
  device = std::make_unique<Device>(api, &service, found[0]);
  const PortAddress& address = found[0].eids.front();
  eid = address.eid;
  std::strncpy(urma_device.name, found[0].name.c_str(), sizeof(urma_device.name) - 1);
  ctx.dev = &urma_device;
  resources = {&transport, device.get(), address,      &connector,
               &keys,      &notify,      &connections, &revoker};
}

Buffer::Buffer(Fabric* of, size_t bytes, uint32_t access) : fabric(of), words((bytes + 7) / 8) {
  static uint32_t last_token = 100;
  segment.registered = true;
  segment.base = addr();
  segment.len = bytes;
  segment.access = access;
  segment.token_id_value = ++last_token;
  segment.eid = fabric->eid;
  segment.seg.ubva.eid = fabric->eid;
  segment.seg.ubva.va = addr();
  segment.seg.len = bytes;
  segment.seg.token_id = last_token;
  fabric->transport.segments().add(&segment);
  MemoryRegion::Options options;
  options.access = access;
  region = std::make_unique<MemoryRegion>(*fabric->device, addr(), bytes, options);
  fabric->keys.set(&segment, region->lkey());
  fabric->connector.grants[last_token] = {addr(), bytes, segment.ref, region->rkey().value_or(0),
                                          access};
  imported = new RemoteRegion(&fabric->transport, &fabric->connector, &fabric->ctx, segment.seg,
                              urma_token_t{0});
}

void Buffer::end() {
  if (region == nullptr) return;
  fabric->keys.clear(&segment);
  region.reset();
  fabric->transport.segments().remove(&segment);
  fabric->connector.grants.erase(segment.token_id_value);
}

Buffer::~Buffer() {
  end();
  fabric->settle();
  imported->drop_ref();
}

urma_sge_t Buffer::sge(size_t offset, uint32_t bytes) {
  urma_sge_t sge = {};
  sge.addr = addr() + offset;
  sge.len = bytes;
  sge.tseg = &segment;
  return sge;
}

urma_sge_t Buffer::remote_sge(size_t offset, uint32_t bytes) {
  urma_sge_t piece = sge(offset, bytes);
  piece.tseg = imported;
  return piece;
}

SendEnd::SendEnd(Fabric* fabric, const urma_jfs_cfg_t& cfg) {
  urma_jetty_id_t id = {};
  id.eid = fabric->eid;
  id.uasid = fabric->transport.uasid();
  id.id = fabric->transport.take_id(IdKind::kJfs, 0, 0);
  sender = std::make_unique<Sender>(fabric->resources, cfg, QueueIdentity{id.id, false, 0}, id);
  attachment =
      std::make_unique<Attachment>(static_cast<TestJfc*>(cfg.jfc), sender->queue().collector());
}

ReceiveEnd::ReceiveEnd(Fabric* of, const urma_jfr_cfg_t& cfg, uint32_t number)
    : fabric(of), id(number), subject(&of->events, &object) {
  const QueueIdentity identity = {id, false, reinterpret_cast<uint64_t>(&object)};
  receiver = std::make_unique<Receiver>(fabric->resources, cfg, identity, &subject);
  attachment = std::make_unique<Attachment>(static_cast<TestJfc*>(cfg.jfc), receiver.get());
  fabric->transport.add_receiver(receiver.get());
  Endpoint endpoint = {};
  endpoint.identity = identity;
  endpoint.eid = fabric->eid;
  endpoint.trans_mode = cfg.trans_mode;
  endpoint.receiver = receiver.get();
  endpoint.jfc = static_cast<TestJfc*>(cfg.jfc);
  receiver->open_ways(endpoint);
  fabric->connector.endpoints[id] = endpoint;
}

ReceiveEnd::~ReceiveEnd() {
  fabric->connector.endpoints.erase(id);
  fabric->transport.remove_receiver(receiver.get());
  attachment.reset();
  subject.end(false);
}

}  // namespace urma::verbs
