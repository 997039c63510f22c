// SPDX-License-Identifier: MIT
//
// Work requests, and a pair of queues that they go between.
#ifndef TEST_VERBS_REQUESTS_H_
#define TEST_VERBS_REQUESTS_H_

#include <list>
#include <memory>
#include <string>
#include <vector>

#include "test/verbs/data_path.h"

namespace urma::verbs {

// A chain of requests to one target, with the lists that they point to.
class Chain {
 public:
  explicit Chain(RemoteQueue* target) : target_(target) {}

  urma_jfs_wr_t& send(const urma_sge_t& from, uint64_t user_ctx, bool signalled = true);
  urma_jfs_wr_t& write(const urma_sge_t& from, const urma_sge_t& to, uint64_t user_ctx,
                       bool signalled = true);
  urma_jfs_wr_t& read(const std::vector<urma_sge_t>& into, const urma_sge_t& from,
                      uint64_t user_ctx);
  urma_jfs_wr_t& write_notify(const urma_sge_t& from, const urma_sge_t& to,
                              const urma_sge_t& notified, uint64_t value, uint64_t user_ctx);
  urma_jfs_wr_t& atomic(urma_opcode_t opcode, const urma_sge_t& result, const urma_sge_t& word,
                        uint64_t operand, uint64_t swap, uint64_t user_ctx);
  urma_jfs_wr_t& nop(uint64_t user_ctx) { return add(URMA_OPC_NOP, user_ctx, true); }

  urma_jfs_wr_t* first() { return requests_.empty() ? nullptr : &requests_.front(); }

 private:
  urma_jfs_wr_t& add(urma_opcode_t opcode, uint64_t user_ctx, bool signalled);
  urma_sg_t list(const std::vector<urma_sge_t>& sges);

  RemoteQueue* target_;
  std::list<urma_jfs_wr_t> requests_;
  std::list<std::vector<urma_sge_t>> lists_;
};

// A sender and a receiver with a JFC each.
struct Pair {
  explicit Pair(const FakeDeviceOptions& options = {}, uint32_t depth = 16,
                const std::function<void(urma_jfs_cfg_t*, urma_jfr_cfg_t*)>& change = {});
  ~Pair();

  urma_status_t post(Chain* chain, urma_jfs_wr_t** bad = nullptr);
  // One request of 8 bytes, which must be accepted.
  void post_send(uint64_t user_ctx);
  void post_write(uint64_t user_ctx);
  urma_status_t post_receive(uint64_t user_ctx, size_t offset = 0, uint32_t bytes = 64);
  std::vector<urma_cr_t> sent(size_t count) { return fabric.poll(send_jfc.get(), count); }
  std::vector<urma_cr_t> received(size_t count) { return fabric.poll(receive_jfc.get(), count); }
  // Makes the connection.
  void connect();
  uint32_t sender_pair() { return fabric.fake->queue_pairs().front(); }

  Fabric fabric;
  std::unique_ptr<TestJfc> send_jfc;
  std::unique_ptr<TestJfc> receive_jfc;
  std::unique_ptr<ReceiveEnd> receive;
  std::unique_ptr<SendEnd> send;
  std::unique_ptr<RemoteQueue> target;
  std::unique_ptr<Buffer> here;
  std::unique_ptr<Buffer> there;
};

}  // namespace urma::verbs

#endif  // TEST_VERBS_REQUESTS_H_
