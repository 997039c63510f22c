// SPDX-License-Identifier: MIT
//
// What programs rely on in the ids that they exchange, and in registered memory.
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>

#include "test/conformance/clients.h"
#include "test/process/configs.h"
#include "test/process/owned.h"

namespace urma_test {
namespace {

constexpr size_t kSize = 4096;

// -------------------------------------------------------------------------------------------------
// 3. Ids
// -------------------------------------------------------------------------------------------------

// Raw bytes that two programs exchange.
struct Raw {
  urma_jetty_id_t queue;
  urma_seg_t segment;
};

enum class Told { kWholeStructs, kOnlyWhatIsNeeded };

Raw told(const Speaker& speaker, Told how) {
  const Raw whole = {speaker.endpoint.jetty->jetty_id, speaker.in_segment->seg};
  if (how == Told::kWholeStructs) return whole;
  Raw needed = {};
  needed.queue.eid = whole.queue.eid;
  needed.queue.id = whole.queue.id;
  needed.segment.ubva.eid = whole.segment.ubva.eid;
  needed.segment.ubva.va = whole.segment.ubva.va;
  needed.segment.len = whole.segment.len;
  needed.segment.token_id = whole.segment.token_id;
  return needed;
}

Body raw_speaker(Told how) {
  return [how](Channel& channel) {
    Speaker speaker;
    Endpoint& endpoint = speaker.endpoint;
    speaker.post_receive(1);
    Raw theirs = channel.swap(told(speaker, how));
    urma_rjetty_t remote = remote_jetty(theirs.queue);
    remote.jetty_id.uasid = 0;
    urma_token_t zero = {0};
    speaker.peer = urma_import_jetty(endpoint.ctx, &remote, &zero);
    ASSERT_NE(speaker.peer, nullptr);
    theirs.segment.ubva.uasid = 0;
    theirs.segment.attr.value = 0;
    speaker.remote = urma_import_seg(endpoint.ctx, &theirs.segment, &zero, 0, {});
    ASSERT_NE(speaker.remote, nullptr);

    speaker.send(64, 2);
    wait_for_success(endpoint.send_jfc, 2);
    wait_for_success(endpoint.receive_jfc, 1);
    EXPECT_EQ(std::string(speaker.in.data(), 64), std::string(64, 'o'));
    channel.sync();
    std::fill(speaker.out.begin(), speaker.out.end(), 'w');
    speaker.write(kSize, 3);
    wait_for_success(endpoint.send_jfc, 3);
    channel.sync();
    EXPECT_EQ(std::string(speaker.in.data(), kSize), std::string(kSize, 'w'));
    EXPECT_EQ(urma_unimport_jetty(speaker.peer), URMA_SUCCESS);
    EXPECT_EQ(urma_unimport_seg(speaker.remote), URMA_SUCCESS);
    channel.sync();
    endpoint.close();
  };
}

TEST_F(Clients, C3_01_StructsTravelAsRawBytes) {
  run_two("first", raw_speaker(Told::kWholeStructs), "second", raw_speaker(Told::kWholeStructs));
}

TEST_F(Clients, C3_01_EidAndIdAreEnough) {
  run_two("first", raw_speaker(Told::kOnlyWhatIsNeeded), "second",
          raw_speaker(Told::kOnlyWhatIsNeeded));
}

void serve_under(uint32_t id, const Config& wanted, Channel& channel) {
  Config config = wanted;
  config.id = id;
  Speaker speaker(config);
  EXPECT_EQ(speaker.endpoint.receiver_id(), id);
  speaker.post_receive(5);
  channel.send(speaker.endpoint.ctx->eid);
  if (config.mode == URMA_TM_RC) {
    speaker.endpoint.bind(speaker.endpoint.import(channel.receive<QueueId>()));
  }
  wait_for_success(speaker.endpoint.receive_jfc, 5);
  channel.sync();
  speaker.endpoint.close();
}

void call_under(uint32_t id, const Config& config, Channel& channel) {
  Speaker speaker(config);
  const auto eid = channel.receive<urma_eid_t>();
  speaker.peer = speaker.endpoint.import(QueueId{eid, id, kNoToken, config.jetty});
  if (config.mode == URMA_TM_RC) {
    speaker.endpoint.bind(speaker.peer);
    channel.send(speaker.endpoint.queue_id());
  }
  speaker.send(8, 6);
  wait_for_success(speaker.endpoint.send_jfc, 6);
  channel.sync();
  speaker.endpoint.close();
}

TEST_F(Clients, C3_02_WellKnownIdsNeedNoExchange) {
  constexpr uint32_t kIds[] = {1, 2, 1000, 65535};
  for (const auto mode : {URMA_TM_RM, URMA_TM_RC}) {
    for (const bool jetty : {true, false}) {
      if (mode == URMA_TM_RC && !jetty) continue;
      run_two(
          "server",
          [=, &kIds](Channel& channel) {
            for (const uint32_t id : kIds) serve_under(id, config_of(mode, jetty), channel);
            serve_under(kIds[0], config_of(mode, jetty), channel);  // freed, allocated again
          },
          "client",
          [=, &kIds](Channel& channel) {
            for (const uint32_t id : kIds) call_under(id, config_of(mode, jetty), channel);
            call_under(kIds[0], config_of(mode, jetty), channel);
          });
    }
  }
}

TEST_F(Clients, C3_02_AWellKnownIdIsTakenOnce) {
  run_one([](Channel&) {
    Config config;
    config.id = 77;
    OwnedEndpoint endpoint(config);
    urma_jetty_cfg_t cfg = endpoint.jetty->jetty_cfg;
    errno = 0;
    EXPECT_EQ(urma_create_jetty(endpoint.ctx, &cfg), nullptr);
    EXPECT_EQ(errno, EEXIST);
  });
}

TEST_F(Clients, C3_04_IdsAreSmallAndDifferInAllProcesses) {
  struct Ids {
    uint32_t jetty, jfr;
  };
  const auto body = [](Channel& channel) {
    OwnedEndpoint endpoint(config_of(URMA_TM_RM, true));
    urma_jfs_cfg_t jfs_cfg = endpoint.jetty->jetty_cfg.jfs_cfg;
    const OwnedJfs jfs = urma_create_jfs(endpoint.ctx, &jfs_cfg);
    urma_device_attr_t attr = {};
    ASSERT_EQ(urma_query_device(endpoint.ctx->dev, &attr), URMA_SUCCESS);
    const uint32_t limit = (attr.dev_cap.max_jetty + 0xffff) & ~0xffffU;
    const Ids mine = {endpoint.jetty->jetty_id.id, endpoint.jfr->jfr_id.id};
    for (const uint32_t id : {mine.jetty, mine.jfr, jfs->jfs_id.id, endpoint.send_jfc->jfc_id.id}) {
      EXPECT_GT(id, 0U);
      EXPECT_LT(id, limit);
    }
    const Ids theirs = channel.swap(mine);
    EXPECT_NE(mine.jetty, theirs.jetty);
    EXPECT_NE(mine.jfr, theirs.jfr);
    channel.sync();
  };
  run_two("one", body, "other", body);
}

// Segments under one token id, `stride` bytes apart, each with its own value.
constexpr uint32_t kSegments = 32;
constexpr uint32_t value_of(uint32_t i) { return 0x1000 + 7 * i; }

struct Shared {
  urma_eid_t eid;
  uint64_t va;
  uint32_t token_id;
};

void own_segments(Channel& channel, size_t length, size_t stride) {
  Endpoint endpoint;
  auto* memory = static_cast<uint8_t*>(std::aligned_alloc(4096, kSegments * stride));
  std::fill(memory, memory + kSegments * stride, uint8_t{0x11});
  urma_token_id_flag_t flag = {};
  flag.bs.multi_seg = 1;
  urma_token_id_t* token_id = urma_alloc_token_id_ex(endpoint.ctx, flag);
  ASSERT_NE(token_id, nullptr);
  std::vector<urma_target_seg_t*> segments;
  for (uint32_t i = 0; i < kSegments; ++i) {
    urma_seg_cfg_t cfg = seg_config(memory + i * stride, length, kAllAccess);
    cfg.token_id = token_id;
    cfg.token_value.token = value_of(i);
    cfg.flag.bs.token_id_valid = URMA_TOKEN_ID_VALID;
    cfg.flag.bs.token_policy = URMA_TOKEN_PLAIN_TEXT;
    segments.push_back(urma_register_seg(endpoint.ctx, &cfg));
    ASSERT_NE(segments.back(), nullptr);
    EXPECT_EQ(segments.back()->seg.token_id, token_id->token_id);
  }
  channel.send(endpoint.queue_id());
  channel.send(Shared{endpoint.ctx->eid, reinterpret_cast<uint64_t>(memory), token_id->token_id});
  channel.sync();  // all refused requests were tried
  for (size_t i = 0; i < kSegments * stride; ++i) ASSERT_EQ(memory[i], 0x11) << i;
  channel.sync();
  channel.sync();  // all granted requests were done
  for (uint32_t i = 0; i < kSegments; ++i) {
    for (size_t k = 0; k < stride; ++k) {
      ASSERT_EQ(memory[i * stride + k], k < length ? 0x80 + i : 0x11) << i << ", " << k;
    }
  }
  for (urma_target_seg_t* segment : segments) EXPECT_EQ(urma_unregister_seg(segment), URMA_SUCCESS);
  EXPECT_EQ(urma_free_token_id(token_id), URMA_SUCCESS);
  endpoint.close();
  std::free(memory);
}

// The other side: its memory must not change, not even when requests are refused.
struct Reader {
  explicit Reader(Channel& channel, size_t bytes) : buffer(bytes) {
    local = endpoint.add(buffer.data(), buffer.size(), URMA_ACCESS_LOCAL_ONLY);
    queue = endpoint.import(channel.receive<QueueId>());
    shared = channel.receive<Shared>();
  }
  urma_target_seg_t* import(uint64_t va, uint64_t len, uint32_t value, uint32_t policy) {
    urma_seg_t seg = {};
    seg.ubva.eid = shared.eid;
    seg.ubva.va = va;
    seg.len = len;
    seg.token_id = shared.token_id;
    seg.attr.bs.token_policy = policy;
    urma_token_t token = {value};
    urma_target_seg_t* segment = urma_import_seg(endpoint.ctx, &seg, &token, 0, {});
    EXPECT_NE(segment, nullptr);
    return segment;
  }
  urma_cr_status_t done(urma_jfs_wr_t wr) {
    endpoint.post(wr);
    return wait_for(endpoint.send_jfc).status;
  }
  void expect_refused(uint64_t va, uint64_t len, uint32_t value, uint64_t at, size_t size,
                      uint32_t policy = URMA_TOKEN_PLAIN_TEXT) {
    const ImportedSegment segment = import(va, len, value, policy);
    std::fill(buffer.begin(), buffer.end(), uint8_t{0x77});
    urma_sge_t here = piece(local, buffer.data(), size);
    urma_sge_t there = piece(segment, at, size);
    EXPECT_EQ(done(write_request(queue, &here, &there)), URMA_CR_REM_ACCESS_ABORT_ERR);
    EXPECT_EQ(done(read_request(queue, &here, &there)), URMA_CR_REM_ACCESS_ABORT_ERR);
    if (size == 8 && at % 8 == 0 && atomics) {
      EXPECT_EQ(done(cas_request(queue, &here, &there, 0x1111111111111111, 0)),
                URMA_CR_REM_ACCESS_ABORT_ERR);
      EXPECT_EQ(done(add_request(queue, &here, &there, 1)), URMA_CR_REM_ACCESS_ABORT_ERR);
    }
    EXPECT_EQ(std::count(buffer.begin(), buffer.end(), 0x77),
              static_cast<ptrdiff_t>(buffer.size()));
  }
  uint64_t va(uint32_t i, size_t stride) const { return shared.va + i * stride; }
  // Through an import of `described` bytes at `at`.
  void fill(uint32_t i, size_t length, size_t stride, uint64_t at, size_t described) {
    const ImportedSegment segment = import(at, described, value_of(i), URMA_TOKEN_PLAIN_TEXT);
    std::fill(buffer.begin(), buffer.end(), static_cast<uint8_t>(0x80 + i));
    urma_sge_t here = piece(local, buffer.data(), length);
    urma_sge_t there = piece(segment, va(i, stride), length);
    EXPECT_EQ(done(write_request(queue, &here, &there)), URMA_CR_SUCCESS);
    std::fill(buffer.begin(), buffer.end(), uint8_t{0});
    EXPECT_EQ(done(read_request(queue, &here, &there)), URMA_CR_SUCCESS);
    EXPECT_EQ(std::count(buffer.begin(), buffer.end(), 0x80 + i), static_cast<ptrdiff_t>(length));
  }

  Endpoint endpoint;
  const bool atomics = traits_of(endpoint.ctx).max_atomic >= 8;
  std::vector<uint8_t> buffer;
  urma_target_seg_t* local;
  urma_target_jetty_t* queue;
  Shared shared;
};

void reach_segments(Channel& channel, size_t length, size_t stride) {
  Reader reader(channel, stride);
  for (uint32_t i = 0; i < kSegments; ++i) {
    SCOPED_TRACE(i);
    const uint64_t va = reader.va(i, stride);
    const uint32_t value = value_of(i);
    reader.expect_refused(va, length, value + 1, va, 8);
    reader.expect_refused(va, length, value_of((i + 1) % kSegments), va, 8);  // a neighbour's
    reader.expect_refused(va, length, 0, va, 8);
    reader.expect_refused(va, length, 0, va, 8, URMA_TOKEN_NONE);
    reader.expect_refused(va, length, value, va + length, 8);      // after its end
    reader.expect_refused(va, length, value, va + length - 4, 8);  // across its end
    reader.expect_refused(va, length, value, va, length + 1);
    // The importer claims that it is longer than it is.
    reader.expect_refused(va, stride, value, va + length, 8);
    reader.expect_refused(va, stride, value, va, stride);
    reader.expect_refused(va + length, 8, value, va + length, 8);  // nothing registered there
  }
  channel.sync();
  channel.sync();
  for (uint32_t i = 0; i < kSegments; ++i)
    reader.fill(i, length, stride, reader.va(i, stride), length);
  channel.sync();
  reader.endpoint.close();
}

TEST_F(Clients, C3_03_ManySegmentsOnOneTokenId) {
  constexpr std::pair<size_t, size_t> kLayouts[] = {{256, 512}, {4096, 8192}, {5000, 8192}};
  for (const auto& [length, stride] : kLayouts) {
    SCOPED_TRACE(length);
    run_two(
        "owner", [=, l = length, s = stride](Channel& channel) { own_segments(channel, l, s); },
        "reader", [=, l = length, s = stride](Channel& channel) { reach_segments(channel, l, s); });
  }
}

TEST_F(Clients, C3_05_ImportsOfAPartReachTheWholeSegment) {
  run_two(
      "owner", [](Channel& channel) { own_segments(channel, 4096, 8192); }, "reader",
      [](Channel& channel) {
        Reader reader(channel, 8192);
        for (int phase = 0; phase < 2; ++phase) channel.sync();
        for (uint32_t i = 0; i < kSegments; ++i)
          reader.fill(i, 4096, 8192, i % 2 == 0 ? 0 : reader.va(i, 8192) + 8, 2048);
        channel.sync();
        reader.endpoint.close();
      });
}

// -------------------------------------------------------------------------------------------------
// 4. Memory and progress
// -------------------------------------------------------------------------------------------------

struct Memory {
  const char* name;
  size_t size;
  uint8_t* bytes;
  bool of_heap;

  void free() const { of_heap ? std::free(bytes) : static_cast<void>(::munmap(bytes, size)); }
};

uint8_t* mapped(size_t size, int flags = 0) {
  void* memory =
      ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
  EXPECT_NE(memory, MAP_FAILED);
  return static_cast<uint8_t*>(memory);
}

uint8_t* numa(size_t size) {
  constexpr int kPreferred = 1;
  uint8_t* memory = mapped(size);
  unsigned long nodes = 1;  // the first one, which all machines have
  // If a sandbox refuses it, this is ordinary memory.
  static_cast<void>(::syscall(SYS_mbind, memory, size, kPreferred, &nodes, 8 * sizeof(nodes), 0));
  return memory;
}

uint8_t* guest_ram(size_t size) {
  uint8_t* memory = mapped(size, MAP_NORESERVE);
  EXPECT_EQ(::madvise(memory, size, MADV_DONTFORK), 0);
  static_cast<void>(::madvise(memory, size, MADV_MERGEABLE));  // if the kernel has it
  return memory;
}

std::vector<Memory> memories() {
  constexpr size_t kMiB = 1 << 20;
  const size_t large = kSanitized ? 64 * kMiB : 1024 * kMiB;
  return {
      {"malloc", kMiB + 3, static_cast<uint8_t*>(std::malloc(kMiB + 3)), true},
      {"memalign", large, static_cast<uint8_t*>(std::aligned_alloc(4096, large)), true},
      {"mmap", large / 2, mapped(large / 2), false},
      {"NUMA", 4 * kMiB, numa(4 * kMiB), false},
      {"guest", large / 4, guest_ram(large / 4), false},
  };
}

// The places that are checked: both ends, and some in between.
std::vector<size_t> places(size_t size) {
  return {0, 8192, size / 2 / 8 * 8, size / 4 * 3 / 8 * 8, (size - 4096) / 8 * 8};
}

// Returns once the peer has changed the byte, without a call in between.
void spin_on(uint8_t* byte) {
  const auto deadline = Clock::now() + patience(seconds(10));
  const std::atomic_ref<uint8_t> changed(*byte);
  while (changed.load(std::memory_order_acquire) != 0xee) {
    if (Clock::now() > deadline) throw std::runtime_error("a byte did not arrive in time");
  }
}

void silent_target(Channel& channel) {
  OwnedEndpoint endpoint;
  channel.send(endpoint.queue_id());
  for (const Memory& memory : memories()) {
    SCOPED_TRACE(memory.name);
    for (const size_t place : places(memory.size)) {
      constexpr uint64_t kBefore = 5;
      std::memcpy(memory.bytes + place, &kBefore, sizeof(kBefore));
    }
    memory.bytes[memory.size - 1] = 0;
    urma_target_seg_t* segment = endpoint.add(memory.bytes, memory.size);
    channel.send(endpoint.segment_id(segment));
    channel.sync();  // asleep in a read until the peer is done
    for (const size_t place : places(memory.size)) {
      uint64_t word;
      std::memcpy(&word, memory.bytes + place, sizeof(word));
      EXPECT_EQ(word, 106u) << place;
    }
    channel.sync();
    uint8_t* tail = memory.bytes + memory.size - 4096;
    spin_on(tail + 4095);
    if (!traits_of(endpoint.ctx).ordered)
      std::for_each(tail, tail + 4096, [](uint8_t& byte) { spin_on(&byte); });
    EXPECT_EQ(std::count(tail, tail + 4096, 0xee), 4096);
    channel.sync();
    endpoint.remove(segment);
    memory.free();
  }
}

void busy_peer(Channel& channel) {
  std::vector<uint8_t> buffer(4096);
  OwnedEndpoint endpoint;
  const bool atomics = traits_of(endpoint.ctx).max_atomic >= 8;
  urma_target_jetty_t* queue = endpoint.import(channel.receive<QueueId>());
  urma_target_seg_t* local = endpoint.add(buffer.data(), buffer.size(), URMA_ACCESS_LOCAL_ONLY);
  for (size_t kind = 0; kind < 5; ++kind) {
    SCOPED_TRACE(kind);
    const auto id = channel.receive<SegmentId>();
    urma_target_seg_t* remote = endpoint.import(id);
    for (const size_t place : places(id.len)) {
      uint64_t word = 0;
      urma_sge_t here = piece(local, buffer.data(), 8);
      // Atomics need an address that is a multiple of their size, which memory from malloc has too.
      urma_sge_t there = piece(remote, id.va + place, 8);
      endpoint.post(read_request(queue, &here, &there, 1));
      wait_for_success(endpoint.send_jfc, 1);
      std::memcpy(&word, buffer.data(), 8);
      EXPECT_EQ(word, 5u);
      word += atomics ? 1 : 101;
      std::memcpy(buffer.data(), &word, 8);
      endpoint.post(write_request(queue, &here, &there, 2));
      wait_for_success(endpoint.send_jfc, 2);
      if (!atomics) continue;
      endpoint.post(add_request(queue, &here, &there, 100, 3));
      wait_for_success(endpoint.send_jfc, 3);
      endpoint.post(cas_request(queue, &here, &there, 106, 106, 4));
      wait_for_success(endpoint.send_jfc, 4);
      std::memcpy(&word, buffer.data(), 8);
      EXPECT_EQ(word, 106u);
    }
    channel.sync();
    channel.sync();
    std::fill(buffer.begin(), buffer.end(), uint8_t{0xee});
    urma_sge_t here = piece(local, buffer.data(), 4096);
    urma_sge_t there = piece(remote, id.va + id.len - 4096, 4096);
    endpoint.post(write_request(queue, &here, &there, 5));
    wait_for_success(endpoint.send_jfc, 5);
    channel.sync();
    endpoint.unimport(remote);
  }
}

TEST_F(Clients, C4_01_OrdinaryMemoryOfATargetThatMakesNoCall) {
  run_two("target", silent_target, "peer", busy_peer);
}

// The receive without memory fails, and nothing is written there any more; the queues go on.
TEST_F(Clients, C4_02_SegmentsEndWhileReceivesAreStillPosted) {
  for (const bool jetty : {true, false}) {
    run_two(
        "receiver",
        [jetty](Channel& channel) {
          Speaker speaker(config_of(URMA_TM_RM, jetty));
          Endpoint& endpoint = speaker.endpoint;
          std::vector<char> gone(kSize, 'g');
          urma_target_seg_t* segment = endpoint.add(gone.data(), gone.size());
          speaker.meet(channel);
          endpoint.post_receive(segment, gone.data(), gone.size(), 1);
          endpoint.remove(segment);
          channel.sync();
          const urma_cr_t cr = wait_for(endpoint.receive_jfc);
          EXPECT_EQ(cr.user_ctx, 1u);
          // Soft-iWARP does not report why.
          EXPECT_EQ(cr.status, traits_of(endpoint.ctx).immediates ? URMA_CR_LOC_ACCESS_ERR
                                                                  : URMA_CR_LOC_OPERATION_ERR);
          EXPECT_EQ(std::string(gone.data(), kSize), std::string(kSize, 'g'));
          channel.sync();
          speaker.post_receive(2);
          channel.sync();
          wait_for_success(endpoint.receive_jfc, 2);
          // The order in which programs end: receives posted, memory unregistered, queues deleted.
          segment = endpoint.add(gone.data(), gone.size());
          for (int i = 0; i < 16; ++i) endpoint.post_receive(segment, gone.data(), 64);
          endpoint.remove(segment);
          endpoint.close();
        },
        "sender",
        [jetty](Channel& channel) {
          Speaker speaker(config_of(URMA_TM_RM, jetty));
          speaker.meet(channel);
          channel.sync();
          speaker.send(64, 1);
          const urma_cr_t cr = wait_for(speaker.endpoint.send_jfc);
          EXPECT_EQ(cr.user_ctx, 1u);
          EXPECT_NE(cr.status, URMA_CR_SUCCESS);
          channel.sync();
          channel.sync();
          speaker.send(64, 2);
          wait_for_success(speaker.endpoint.send_jfc, 2);
          speaker.endpoint.close();
        });
  }
}

}  // namespace
}  // namespace urma_test
