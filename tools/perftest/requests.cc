// SPDX-License-Identifier: MIT
#include "tools/perftest/requests.h"

namespace perftest {
namespace {

urma_opcode_t opcode_of(const Config& config) {
  switch (config.api) {
    case Api::kRead:
      return URMA_OPC_READ;
    case Api::kWrite:
      if (config.immediate) return URMA_OPC_WRITE_IMM;
      return config.notify ? URMA_OPC_WRITE_NOTIFY : URMA_OPC_WRITE;
    case Api::kSend:
      return config.immediate ? URMA_OPC_SEND_IMM : URMA_OPC_SEND;
    case Api::kAtomic:
      break;
  }
  return config.atomic_type == AtomicType::kCas ? URMA_OPC_CAS : URMA_OPC_FADD;
}

}  // namespace

uint32_t inline_limit(const Config& config) {
  if (config.api == Api::kRead || config.api == Api::kAtomic) return 0;
  switch (config.layout) {
    case Layout::kShort:
      return UINT32_MAX;
    case Layout::kBcopy:
    case Layout::kZcopy:
      return 0;
    case Layout::kDefault:
      break;
  }
  return config.inline_size;
}

Requests::Requests(const Session& session, uint32_t lane, uint32_t count)
    : session_(session),
      lane_(lane),
      pieces_(session.config.sge_num + 2),
      requests_(count),
      places_(size_t{count} * pieces_),
      sizes_(count) {
  for (uint32_t i = 0; i < count; i++) prepare(i);
}

void Requests::prepare(uint32_t index) {
  const Config& config = session_.config;
  const Link& link = session_.links[lane_];
  urma_sge_t* const local = &places_[size_t{index} * pieces_];
  urma_sge_t* const remote = local + config.sge_num;
  for (uint32_t i = 0; i < config.sge_num; i++) local[i].tseg = session_.memory.segment(lane_);
  remote[0].tseg = link.segment;
  urma_jfs_wr_t& wr = requests_[index];
  wr.opcode = opcode_of(config);
  wr.tjetty = link.target;
  wr.user_ctx = lane_;
  switch (config.api) {
    case Api::kRead:
      wr.rw.src = {remote, 1};
      wr.rw.dst = {local, config.sge_num};
      break;
    case Api::kWrite:
      wr.rw.src = {local, config.sge_num};
      wr.rw.dst = {remote, 1};
      wr.rw.notify_data = kImmediate;
      break;
    case Api::kSend:
      wr.send.src = {local, config.sge_num};
      wr.send.imm_data = kImmediate;
      break;
    case Api::kAtomic:
      if (config.atomic_type == AtomicType::kCas) {
        wr.cas = {remote, local, {0}, {1}};
      } else {
        wr.faa = {remote, local, {1}};
      }
      break;
  }
  if (config.notify) {
    remote[1] = {link.notify->seg.ubva.va + session_.notify->offset(), sizeof(uint64_t),
                 link.notify, nullptr};
    wr.rw.dst.num_sge = 2;
  }
}

void Requests::aim(uint32_t index, uint32_t size, const uint8_t* local, uint64_t remote) {
  const Config& config = session_.config;
  urma_sge_t* const here = &places_[size_t{index} * pieces_];
  const uint32_t piece = size / config.sge_num;
  for (uint32_t i = 0; i < config.sge_num; i++) {
    here[i].addr = reinterpret_cast<uintptr_t>(local) + uint64_t{i} * piece;
    here[i].len = i + 1 < config.sge_num ? piece : size - i * piece;
  }
  urma_sge_t& there = here[config.sge_num];
  there.addr = remote;
  there.len = size;
  requests_[index].flag.bs.inline_flag = size <= inline_limit(config);
  sizes_[index] = size;
}

void Requests::signal(uint32_t index, bool leaves_completion) {
  urma_jfs_wr_t& wr = requests_[index];
  wr.flag.bs.complete_enable = leaves_completion;
  wr.user_ctx = lane_ | (leaves_completion ? kSignalled : 0);
}

void Requests::chain(uint32_t first, uint32_t count) {
  for (uint32_t i = first; i < first + count; i++) {
    requests_[i].next = i + 1 < first + count ? &requests_[i + 1] : nullptr;
  }
}

}  // namespace perftest
