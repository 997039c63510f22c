// SPDX-License-Identifier: MIT
//
// Importing and binding in the background.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>

#include <atomic>
#include <cerrno>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "test/process/log_lines.h"
#include "test/process/owned.h"
#include "test/process/party.h"

namespace urma_test {
namespace {

using NotifierTest = ProcessTest;

constexpr uint32_t kWellKnown = 77;
constexpr int kForEver = -1;

int ms(milliseconds limit) { return static_cast<int>(patience(limit).count()); }

urma_rjetty_t descriptor(const Endpoint& endpoint, uint32_t id, uint32_t policy = 0) {
  urma_rjetty_t remote = {};
  remote.jetty_id.eid = endpoint.ctx->eid;
  remote.jetty_id.id = id;
  remote.trans_mode = endpoint.config.mode;
  remote.type = URMA_JETTY;
  remote.flag.bs.token_policy = policy;
  return remote;
}

bool readable(const urma_notifier_t* notifier, milliseconds limit = milliseconds(0)) {
  pollfd watched = {notifier->fd, POLLIN, 0};
  return ::poll(&watched, 1, ms(limit)) == 1;
}

// A process with a notifier.
struct Importer : Party {
  explicit Importer(const Config& config = {}) : Party(config) {
    notifier = urma_create_notifier(endpoint.ctx);
    EXPECT_NE(notifier, nullptr);
  }
  urma_target_jetty_t* begin(uint32_t id, uint64_t user_ctx, int timeout,
                             uint32_t token_value = 0) {
    const urma_rjetty_t remote = descriptor(endpoint, id, token_value == 0 ? 0 : 1);
    const urma_token_t token = {token_value};
    urma_target_jetty_t* target =
        urma_import_jetty_async(notifier, &remote, &token, user_ctx, timeout);
    EXPECT_NE(target, nullptr);
    return target;
  }
  urma_notify_t next(int timeout = kForEver) {
    urma_notify_t notify = {};
    EXPECT_EQ(urma_wait_notify(notifier, 1, &notify, timeout), 1);
    return notify;
  }
  bool idle() {
    urma_notify_t notify;
    return urma_wait_notify(notifier, 1, &notify, 0) == 0;
  }
  ~Importer() {
    if (endpoint.wants_closing()) close();
  }
  void close() {
    if (notifier != nullptr) {
      EXPECT_EQ(urma_delete_notifier(notifier), URMA_SUCCESS);
    }
    Party::close();
  }
  urma_notifier_t* notifier;
};

TEST_F(NotifierTest, ImportedTargetTakesMessages) {
  run_two(
      "importer",
      [](Channel& channel) {
        Importer importer;
        EXPECT_FALSE(readable(importer.notifier));
        urma_target_jetty_t* target =
            importer.begin(channel.receive<uint32_t>(), 42, ms(seconds(10)));
        EXPECT_TRUE(readable(importer.notifier, seconds(10)));
        const urma_notify_t notify = importer.next(0);
        EXPECT_EQ(notify.type, URMA_IMPORT_JETTY_NOTIFY);
        EXPECT_EQ(notify.status, URMA_SUCCESS);
        EXPECT_EQ(notify.user_ctx, 42u);
        EXPECT_EQ(notify.tjetty, target);
        EXPECT_FALSE(readable(importer.notifier));
        EXPECT_TRUE(importer.idle());
        urma_jfs_wr_t wr = importer.message(8, 1);
        wr.tjetty = target;
        importer.endpoint.post(wr);
        wait_for_success(importer.endpoint.send_jfc, 1);
        channel.sync();
        EXPECT_EQ(urma_unimport_jetty_async(target), URMA_SUCCESS);
      },
      "owner",
      [](Channel& channel) {
        Party party{Config{}};
        party.post_receive(3);
        channel.send(party.endpoint.jetty->jetty_id.id);
        wait_for_success(party.endpoint.receive_jfc, 3);
        channel.sync();
      });
}

// The target process starts while the import is in progress.
TEST_F(NotifierTest, TargetMayStartLater) {
  run_two(
      "importer",
      [](Channel& channel) {
        Importer importer;
        // The timeout of the call counts, non-blocking or not.
        ASSERT_EQ(::fcntl(importer.notifier->fd, F_SETFL, O_NONBLOCK), 0);
        urma_target_jetty_t* target = importer.begin(kWellKnown, 1, kForEver);
        EXPECT_TRUE(importer.idle());
        channel.sync();
        const urma_notify_t notify = importer.next(ms(seconds(20)));
        EXPECT_EQ(notify.status, URMA_SUCCESS);
        channel.sync();
        EXPECT_EQ(urma_unimport_jetty_async(target), URMA_SUCCESS);
      },
      "owner",
      [](Channel& channel) {
        channel.sync();
        Config config;
        config.id = kWellKnown;
        Party party(config);
        channel.sync();
      });
}

TEST_F(NotifierTest, RefusalsAndTimeouts) {
  run_one([](Channel&) {
    constexpr uint32_t kSecret = 0x1234;
    Config config;
    config.token = kSecret;
    Importer importer(config);
    const uint32_t own = importer.endpoint.jetty->jetty_id.id;
    importer.begin(own, 1, kForEver, kSecret + 1);
    EXPECT_EQ(importer.next().status, URMA_EINVAL);

    const LogLines lines;
    importer.begin(kWellKnown, 2, 0);
    EXPECT_EQ(importer.next().status, URMA_ETIMEOUT);
    EXPECT_LINE("no process", "answers for");

    const auto start = Clock::now();
    importer.begin(kWellKnown, 3, 50);
    const urma_notify_t late = importer.next();
    EXPECT_EQ(late.status, URMA_ETIMEOUT);
    EXPECT_EQ(late.user_ctx, 3u);
    EXPECT_GE(Clock::now() - start, milliseconds(50));

    urma_rjetty_t remote = descriptor(importer.endpoint, own, 1);
    remote.trans_mode = URMA_TM_RC;
    const urma_token_t token = {kSecret};
    EXPECT_NE(urma_import_jetty_async(importer.notifier, &remote, &token, 4, kForEver), nullptr);
    EXPECT_EQ(importer.next().status, URMA_EINVAL);

    // The failed request is freed: it holds no reference to the context.
    urma_target_jetty_t* target = importer.begin(own, 5, 0, kSecret);
    EXPECT_EQ(importer.next().status, URMA_SUCCESS);
    EXPECT_EQ(urma_unimport_jetty_async(target), URMA_SUCCESS);
  });
}

TEST_F(NotifierTest, WaitTakesUpToSixteen) {
  run_one([](Channel&) {
    constexpr uint64_t kImports = 40;
    Importer importer;
    std::set<uint64_t> missing;
    std::vector<urma_target_jetty_t*> targets;
    for (uint64_t i = 0; i < kImports; ++i) {
      missing.insert(i);
      targets.push_back(importer.begin(importer.endpoint.jetty->jetty_id.id, i, kForEver));
    }
    // One owner answers in order: once this one has ended, all have.
    urma_notifier_t* const several = importer.notifier;
    importer.notifier = urma_create_notifier(importer.endpoint.ctx);
    ASSERT_NE(importer.notifier, nullptr);
    targets.push_back(importer.begin(importer.endpoint.jetty->jetty_id.id, 0, kForEver));
    EXPECT_EQ(importer.next().status, URMA_SUCCESS);
    EXPECT_EQ(urma_delete_notifier(std::exchange(importer.notifier, several)), URMA_SUCCESS);
    bool first = true;
    while (!missing.empty()) {
      urma_notify_t results[kImports];
      const int count = urma_wait_notify(importer.notifier, kImports, results, kForEver);
      ASSERT_GE(count, 1);
      ASSERT_LE(count, 16);
      EXPECT_TRUE(!std::exchange(first, false) || !over_shared_memory() || count == 16) << count;
      for (int i = 0; i < count; ++i) {
        EXPECT_EQ(results[i].status, URMA_SUCCESS);
        EXPECT_EQ(results[i].tjetty, targets[results[i].user_ctx]);
        EXPECT_EQ(missing.erase(results[i].user_ctx), 1u);
      }
      EXPECT_EQ(urma_ack_notify(importer.endpoint.ctx, static_cast<uint32_t>(count), results),
                URMA_SUCCESS);
    }
    EXPECT_FALSE(readable(importer.notifier));
    const auto start = Clock::now();
    urma_notify_t none;
    EXPECT_EQ(urma_wait_notify(importer.notifier, 1, &none, 30), 0);
    EXPECT_GE(Clock::now() - start, milliseconds(30));
    for (urma_target_jetty_t* target : targets) {
      EXPECT_EQ(urma_unimport_jetty_async(target), URMA_SUCCESS);
    }
  });
}

TEST_F(NotifierTest, DeletedNotifierEndsItsImports) {
  run_one([](Channel&) {
    for (int round = 0; round < 20; ++round) {
      Importer importer;
      for (int i = 0; i < 5; ++i) {
        importer.begin(kWellKnown, 1, i % 2 == 0 ? kForEver : 1);
        importer.begin(importer.endpoint.jetty->jetty_id.id, 2, kForEver);
      }
      if (round % 2 == 0) {
        const urma_notify_t told = importer.next();
        if (told.status == URMA_SUCCESS) {
          EXPECT_EQ(urma_unimport_jetty_async(told.tjetty), URMA_SUCCESS);
        }
      }
      // A successful import that no one was told of ends too.
      EXPECT_EQ(urma_delete_notifier(std::exchange(importer.notifier, nullptr)), URMA_SUCCESS);
    }
  });
}

TEST_F(NotifierTest, ImportEndedEarlyReportsNothing) {
  run_one([](Channel&) {
    Importer importer;
    for (int round = 0; round < 50; ++round) {
      EXPECT_EQ(urma_unimport_jetty_async(importer.begin(kWellKnown, 1, 1)), URMA_SUCCESS);
      EXPECT_EQ(urma_unimport_jetty_async(
                    importer.begin(importer.endpoint.jetty->jetty_id.id, 1, kForEver)),
                URMA_SUCCESS);
    }
    importer.begin(kWellKnown, 9, 20);
    EXPECT_EQ(importer.next().user_ctx, 9u);
    EXPECT_TRUE(importer.idle());
  });
}

// However it ends, neither its result nor the end of the notifier touches it again.
TEST_F(NotifierTest, ImportEndedBeforeItsResultIsFetchedReportsNothing) {
  run_one([](Channel&) {
    Importer importer;
    const auto& references = importer.endpoint.ctx->ref.atomic_cnt;
    const unsigned long before = references.load();
    for (auto* unimport : {urma_unimport_jetty, urma_unimport_jetty_async, urma_unimport_jfr}) {
      urma_target_jetty_t* target = importer.begin(kWellKnown, 1, 1);
      EXPECT_TRUE(readable(importer.notifier, seconds(10)));
      EXPECT_EQ(unimport(target), URMA_SUCCESS);
      EXPECT_FALSE(readable(importer.notifier));
      EXPECT_TRUE(importer.idle());
      EXPECT_EQ(unimport(importer.begin(kWellKnown, 2, kForEver)), URMA_SUCCESS);
    }
    EXPECT_EQ(references.load(), before);
    EXPECT_EQ(urma_delete_notifier(std::exchange(importer.notifier, nullptr)), URMA_SUCCESS);
    EXPECT_EQ(references.load(), before - 1);
  });
}

TEST_F(NotifierTest, TargetOfAFailedImportStaysForTheBoundJetty) {
  run_one([](Channel&) {
    Importer importer(rc_config());
    urma_jetty_t* jetty = importer.endpoint.jetty;
    urma_target_jetty_t* target = importer.begin(kWellKnown, 1, 1);
    EXPECT_EQ(urma_bind_jetty(jetty, target), URMA_SUCCESS);
    EXPECT_EQ(importer.next().status, URMA_ETIMEOUT);
    EXPECT_EQ(jetty->remote_jetty->id.id, kWellKnown);
    EXPECT_GE(urma_get_tpn(jetty), 0);
    EXPECT_EQ(urma_unbind_jetty(jetty), URMA_SUCCESS);

    target = importer.begin(kWellKnown, 2, 1);
    EXPECT_EQ(urma_bind_jetty_async(importer.notifier, jetty, target, 3, 100), URMA_SUCCESS);
    urma_notify_t notify = importer.next();
    EXPECT_EQ(notify.user_ctx, 2u);
    EXPECT_EQ(jetty->remote_jetty->id.id, kWellKnown);
    notify = importer.next();
    EXPECT_EQ(notify.user_ctx, 3u);
    EXPECT_EQ(notify.status, URMA_ETIMEOUT);
    EXPECT_EQ(jetty->remote_jetty, nullptr);
  });
}

TEST_F(NotifierTest, BindReportsWhetherThePeerExists) {
  run_one([](Channel&) {
    Importer importer(rc_config());
    urma_jetty_t* jetty = importer.endpoint.jetty;
    urma_jetty_t* other = importer.add_jetty();
    urma_target_jetty_t* peer = importer.import(other->jetty_id.id);
    EXPECT_EQ(urma_bind_jetty_async(importer.notifier, jetty, peer, 7, kForEver), URMA_SUCCESS);
    urma_notify_t notify = importer.next();
    EXPECT_EQ(notify.type, URMA_BIND_JETTY_NOTIFY);
    EXPECT_EQ(notify.status, URMA_SUCCESS);
    EXPECT_EQ(notify.user_ctx, 7u);
    EXPECT_EQ(notify.jetty, jetty);
    EXPECT_EQ(jetty->remote_jetty, peer);
    EXPECT_EQ(urma_bind_jetty_async(importer.notifier, jetty, importer.import(1), 8, kForEver),
              URMA_EEXIST);
    EXPECT_EQ(urma_unbind_jetty_async(jetty), URMA_SUCCESS);
    EXPECT_EQ(jetty->remote_jetty, nullptr);

    urma_target_jetty_t* nobody = importer.import(kWellKnown);
    EXPECT_EQ(urma_bind_jetty_async(importer.notifier, jetty, nobody, 9, 20), URMA_SUCCESS);
    notify = importer.next();
    EXPECT_EQ(notify.status, URMA_ETIMEOUT);
    EXPECT_EQ(jetty->remote_jetty, nullptr);
    // Both are free again.
    EXPECT_EQ(urma_bind_jetty(other, nobody), URMA_SUCCESS);
    EXPECT_EQ(urma_bind_jetty(jetty, peer), URMA_SUCCESS);
    EXPECT_EQ(urma_unbind_jetty(jetty), URMA_SUCCESS);
  });
}

// Nothing of them happens in the next life of the library.
TEST_F(NotifierTest, LibraryEndsWithPendingImports) {
  run_one([](Channel&) {
    // The program breaks the order, so nothing of it is freed.
    static auto& left = *new std::vector<Importer*>;
    for (int round = 0; round < 5; ++round) {
      left.push_back(new Importer);
      for (int i = 0; i < 5; ++i) {
        left.back()->begin(kWellKnown, 1, kForEver);
        left.back()->begin(kWellKnown, 1, 2);
        left.back()->begin(left.back()->endpoint.jetty->jetty_id.id, 2, kForEver);
      }
      EXPECT_EQ(urma_uninit(), URMA_SUCCESS);
    }
    Importer importer;
    importer.begin(kWellKnown, 3, 20);
    EXPECT_EQ(importer.next().user_ctx, 3u);
  });
}

// A result about a deleted jetty does not name it.
TEST_F(NotifierTest, UnbindFailsAPendingBind) {
  run_one([](Channel&) {
    Importer importer(rc_config());
    urma_jetty_t* jetty = importer.add_jetty();
    urma_target_jetty_t* nobody = importer.import(kWellKnown);
    EXPECT_EQ(urma_bind_jetty_async(importer.notifier, jetty, nobody, 1, 20), URMA_SUCCESS);
    EXPECT_EQ(urma_unbind_jetty(jetty), URMA_SUCCESS);
    importer.more.pop_back();
    EXPECT_EQ(urma_delete_jetty(jetty), URMA_SUCCESS);
    const urma_notify_t notify = importer.next();
    EXPECT_EQ(notify.status, URMA_FAIL);
    EXPECT_EQ(notify.jetty, nullptr);
  });
}

TEST_F(NotifierTest, UnbindDoesNotAffectTheNextBind) {
  run_one([](Channel&) {
    Importer importer(rc_config());
    urma_jetty_t* jetty = importer.endpoint.jetty;
    urma_target_jetty_t* nobody = importer.import(kWellKnown);
    // No more requests are sent, so the result does not wait for the timeout.
    for (const int timeout : {0, 1, kForEver}) {
      EXPECT_EQ(urma_bind_jetty_async(importer.notifier, jetty, nobody, 1, timeout), URMA_SUCCESS);
      if (timeout == 1) {
        EXPECT_TRUE(readable(importer.notifier, seconds(10)));
      }
      EXPECT_EQ(urma_unbind_jetty(jetty), URMA_SUCCESS);
      EXPECT_EQ(urma_bind_jetty(jetty, nobody), URMA_SUCCESS);
      const urma_notify_t notify = importer.next(ms(seconds(10)));
      EXPECT_EQ(notify.status, URMA_FAIL);
      EXPECT_EQ(notify.jetty, nullptr);
      EXPECT_EQ(jetty->remote_jetty, nobody);
      EXPECT_EQ(urma_unbind_jetty(jetty), URMA_SUCCESS);
    }
    EXPECT_TRUE(importer.idle());
  });
}

TEST_F(NotifierTest, BindOfABoundPairSucceeds) {
  run_one([](Channel&) {
    Importer importer(rc_config());
    urma_jetty_t* jetty = importer.endpoint.jetty;
    urma_target_jetty_t* nobody = importer.import(kWellKnown);
    EXPECT_EQ(urma_bind_jetty(jetty, nobody), URMA_SUCCESS);
    EXPECT_EQ(urma_bind_jetty_async(importer.notifier, jetty, nobody, 1, 0), URMA_SUCCESS);
    urma_notify_t notify = importer.next(ms(seconds(10)));
    EXPECT_EQ(notify.type, URMA_BIND_JETTY_NOTIFY);
    EXPECT_EQ(notify.status, URMA_SUCCESS);
    EXPECT_EQ(notify.user_ctx, 1u);
    EXPECT_EQ(notify.jetty, jetty);
    EXPECT_EQ(jetty->remote_jetty, nobody);
    EXPECT_EQ(urma_bind_jetty_async(importer.notifier, jetty, nobody, 2, 0), URMA_SUCCESS);
    EXPECT_EQ(urma_unbind_jetty(jetty), URMA_SUCCESS);
    notify = importer.next(ms(seconds(10)));
    EXPECT_EQ(notify.status, URMA_FAIL);
    EXPECT_EQ(notify.user_ctx, 2u);
    EXPECT_EQ(notify.jetty, nullptr);
  });
}

// Every bind is reported once, whether its result or the program undoes it.
TEST_F(NotifierTest, UnbindRacesWithTheResult) {
  run_one([](Channel&) {
    constexpr int kBinds = 100;
    Importer importer(rc_config());
    urma_target_jetty_t* nobody = importer.import(kWellKnown);
    std::atomic<int> told{0};
    std::thread waiter([&] {
      while (told < kBinds) {
        urma_notify_t notify;
        if (urma_wait_notify(importer.notifier, 1, &notify, 5) == 1) ++told;
      }
    });
    for (int i = 0; i < kBinds; ++i) {
      const OwnedJetty jetty = importer.add_jetty();
      EXPECT_EQ(urma_bind_jetty_async(importer.notifier, jetty, nobody, 1, 1), URMA_SUCCESS);
      const urma_status_t undone = urma_unbind_jetty(jetty);
      EXPECT_TRUE(undone == URMA_SUCCESS || undone == URMA_EINVAL) << undone;
      const auto deadline = Clock::now() + patience(seconds(10));
      while (told <= i && Clock::now() < deadline) std::this_thread::yield();
      EXPECT_GT(told, i);
      importer.more.pop_back();
    }
    waiter.join();
    EXPECT_EQ(urma_bind_jetty(importer.endpoint.jetty, nobody), URMA_SUCCESS);
  });
}

// A stopped owner does not answer yet, and a dead one never will.
TEST_F(NotifierTest, SilentAndDeadOwners) {
  Child owner("owner", [](Channel& channel) {
    Endpoint endpoint;
    channel.send(endpoint.jetty->jetty_id.id);
    channel.sync();
  });
  Child importer("importer", [](Channel& channel) {
    Importer party;
    const auto id = channel.receive<uint32_t>();
    for (int round = 0; round < 2; ++round) {
      party.begin(id, 1, ms(milliseconds(200)));
      EXPECT_EQ(party.next().status, URMA_ETIMEOUT);
      channel.sync();
    }
  });
  const auto id = owner.channel().receive<uint32_t>();
  owner.stop();
  importer.channel().send(id);
  importer.channel().sync();
  owner.kill();
  importer.channel().sync();
  importer.expect_success();
}

TEST_F(NotifierTest, ThreadsShareANotifier) {
  run_one([](Channel&) {
    Importer importer;
    constexpr int kEach = 50;
    std::atomic<int> told{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 2; ++i) {
      threads.emplace_back([&] {
        for (int n = 0; n < kEach; ++n) {
          importer.begin(importer.endpoint.jetty->jetty_id.id, 1, kForEver);
        }
      });
      threads.emplace_back([&] {
        while (told < 2 * kEach) {
          urma_notify_t results[4];
          const int count = urma_wait_notify(importer.notifier, 4, results, 5);
          ASSERT_GE(count, 0);
          for (int n = 0; n < count; ++n) {
            EXPECT_EQ(results[n].status, URMA_SUCCESS);
            EXPECT_EQ(urma_unimport_jetty_async(results[n].tjetty), URMA_SUCCESS);
          }
          told += count;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  });
}

}  // namespace
}  // namespace urma_test
