// SPDX-License-Identifier: MIT
#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>

#include "test/process/refusal.h"
#include "urma/base/clock.h"
#include "urma/base/error.h"
#include "urma/core/process/files.h"
#include "urma/core/process/runtime.h"
#include "urma/core/process/service_thread.h"
#include "urma/core/process/settings.h"

namespace {

std::atomic<uint64_t> entries_read = 0;

}  // namespace

// Replaces the C library's function, whose other name this is.
extern "C" dirent* readdir(DIR* directory) {
  ++entries_read;
  return reinterpret_cast<dirent*>(::readdir64(directory));
}

namespace urma::core {
namespace {

constexpr uint64_t kPatienceNs = 20'000'000'000;

namespace fs = std::filesystem;

// Unique to this run: another one on this host would conflict.
const auto kWished = static_cast<uint32_t>(random_number() % 0xfffffe + 1);

// The service thread and runtime of a process.
class Instance {
 public:
  explicit Instance(uint32_t uasid = 0) {
    settings_.load();
    service_.start();
    service_.run([&] { runtime_ = std::make_unique<ProcessRuntime>(service_, settings_, uasid); });
  }
  ~Instance() {
    service_.run([&] { runtime_.reset(); });
  }
  ProcessRuntime* operator->() { return runtime_.get(); }

 private:
  EnvSettings settings_;
  ServiceThread service_;
  std::unique_ptr<ProcessRuntime> runtime_;
};

// A child process, which lives until it is killed or its body returns.
class Child {
 public:
  // The number returned by the body reaches the parent; then the child waits to be killed.
  explicit Child(const std::function<uint32_t()>& body) {
    int ends[2];
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    answer_.reset(ends[0]);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::alarm(60);
      const uint32_t number = body();
      if (::write(ends[1], &number, sizeof number) != sizeof number) ::_exit(1);
      for (;;) ::pause();
    }
    ::close(ends[1]);
  }
  ~Child() { kill(); }

  uint32_t answer() {
    uint32_t number = 0;
    EXPECT_EQ(::read(answer_.get(), &number, sizeof number), static_cast<ssize_t>(sizeof number));
    return number;
  }
  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  pid_t pid_;
  Fd answer_;
};

class RuntimeDirTest : public testing::Test {
 protected:
  RuntimeDirTest() {
    const char* base = ::getenv("TEST_TMPDIR");
    root_ = urma::format("{}/urmaXXXXXX", base == nullptr ? "/tmp" : base);
    EXPECT_NE(::mkdtemp(root_.data()), nullptr);
    path_ = root_ + "/urma";
    ::setenv("URMA_RUNTIME_DIR", path_.c_str(), 1);
  }
  ~RuntimeDirTest() override {
    ::unsetenv("URMA_RUNTIME_DIR");
    fs::remove_all(root_);
  }

  std::set<std::string> names() const {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(path_)) {
      names.insert(entry.path().filename().string());
    }
    return names;
  }
  // The text of the Error thrown by opening, "" if it opens.
  static std::string refusal(uint32_t uasid = 0) {
    try {
      Instance instance(uasid);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
  static int status_of(const std::function<void()>& body) {
    try {
      body();
    } catch (const Error& error) {
      return error.status();
    }
    return 0;
  }

  std::string root_;
  std::string path_;
};

TEST_F(RuntimeDirTest, IsCreatedForItsOwnerAloneAndLeftEmpty) {
  {
    Instance instance;
    struct stat info;
    ASSERT_EQ(::stat(path_.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 07777, 0700u);
    EXPECT_EQ(instance->path(), path_);
    EXPECT_NE(instance->nonce(), 0u);
    EXPECT_TRUE(names().count(urma::format("slot-{}", instance->slot())));
    EXPECT_EQ(instance->socket_name(7, "shm"), "7.shm");
  }
  EXPECT_EQ(names(), (std::set<std::string>{"eids", "ids"}));
}

TEST_F(RuntimeDirTest, RelativePathStaysTheSameDirectory) {
  const fs::path before = fs::current_path();
  fs::current_path(root_);
  ::setenv("URMA_RUNTIME_DIR", "urma", 1);
  {
    Instance instance;
    fs::current_path(before);
    EXPECT_EQ(instance->path(), path_);
  }
  EXPECT_EQ(names(), (std::set<std::string>{"eids", "ids"}));
}

TEST_F(RuntimeDirTest, ForeignModeIsRefusedWithTheRemedy) {
  fs::create_directory(path_);
  ::chmod(path_.c_str(), 0755);
  const auto text = refusal();
  EXPECT_NE(text.find(path_), std::string::npos);
  EXPECT_NE(text.find("0755"), std::string::npos);
  EXPECT_NE(text.find("chmod 0700"), std::string::npos);
}

TEST_F(RuntimeDirTest, DirectoryOfAGroupIsAcceptedIfOtherUsersArePeers) {
  fs::create_directory(path_);
  ::chmod(path_.c_str(), 02770);
  EXPECT_NE(refusal().find("chmod 0700"), std::string::npos);
  ::setenv("URMA_SHM_PEERS", "54321", 1);
  {
    Instance instance;
    EXPECT_TRUE(instance->admits(54321));
    EXPECT_TRUE(instance->admits(0));
    EXPECT_TRUE(instance->admits(::geteuid()));
    EXPECT_FALSE(instance->admits(54322));
    struct stat info;
    ASSERT_EQ(::stat((path_ + "/" + slot_name(instance->slot())).c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 07777, 0660u);
  }
  ::chmod(path_.c_str(), 0770);  // without a group for what is made in it
  EXPECT_NE(refusal().find("chmod 2770"), std::string::npos);
  ::chmod(path_.c_str(), 02777);
  EXPECT_NE(refusal().find("chmod 2770"), std::string::npos);
  ::chmod(path_.c_str(), 0700);
  EXPECT_EQ(refusal(), "");
  // One that the user of the program has not chosen is never anyone else's.
  ::unsetenv("URMA_RUNTIME_DIR");
  ::setenv("XDG_RUNTIME_DIR", root_.c_str(), 1);
  EXPECT_EQ(refusal(), "");
  ::chmod(path_.c_str(), 02770);
  EXPECT_NE(refusal().find("chmod 0700"), std::string::npos);
  ::unsetenv("XDG_RUNTIME_DIR");
  ::unsetenv("URMA_SHM_PEERS");
}

TEST_F(RuntimeDirTest, ForeignOwnerIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a directory away";
  fs::create_directory(path_);
  ::chmod(path_.c_str(), 0700);
  ASSERT_EQ(::chown(path_.c_str(), 12345, 0), 0);
  EXPECT_NE(refusal().find("12345"), std::string::npos);
}

TEST_F(RuntimeDirTest, SymbolicLinksAndFilesAreRefused) {
  fs::create_directory(root_ + "/real");
  ::chmod((root_ + "/real").c_str(), 0700);
  fs::create_symlink(root_ + "/real", path_);
  EXPECT_NE(refusal().find(path_), std::string::npos);
  fs::remove(path_);
  std::ofstream(path_) << "a file";
  EXPECT_NE(refusal().find(path_), std::string::npos);
}

TEST_F(RuntimeDirTest, XdgRuntimeDirIsTheDefault) {
  ::unsetenv("URMA_RUNTIME_DIR");
  ::setenv("XDG_RUNTIME_DIR", root_.c_str(), 1);
  {
    Instance instance;
    EXPECT_EQ(instance->path(), root_ + "/urma");
  }
  ::unsetenv("XDG_RUNTIME_DIR");
}

TEST_F(RuntimeDirTest, UmaskHasNoEffectAndIsNotChanged) {
  Child child([] {
    ::umask(0277);
    Instance instance;
    return static_cast<uint32_t>(::umask(0));
  });
  EXPECT_EQ(child.answer(), 0277u);
  Instance instance;
}

TEST_F(RuntimeDirTest, EidTableIsTheSameForAllAndPersists) {
  std::vector<urma_eid_t> eids;
  {
    Instance first, second;
    eids.assign(first->eids().begin(), first->eids().end());
    ASSERT_GE(eids.size(), 2u);
    EXPECT_EQ(std::memcmp(eids.data(), second->eids().data(), eids.size() * sizeof eids[0]), 0);
  }
  EXPECT_NE(std::memcmp(&eids[0], &eids[1], sizeof eids[0]), 0);
  Instance third;
  EXPECT_EQ(std::memcmp(eids.data(), third->eids().data(), eids.size() * sizeof eids[0]), 0);
}

TEST_F(RuntimeDirTest, DamagedEidTableIsRefusedByName) {
  for (const char* text : {"", "fd00::1\n", "fd00::1\nfd00::1\n", "fd00::1\n::\n",
                           "fd00::1\nrubbish\n", "fd00::1\nfd00::2"}) {
    fs::create_directory(path_);
    ::chmod(path_.c_str(), 0700);
    std::ofstream(path_ + "/eids") << text;
    EXPECT_NE(refusal().find(path_ + "/eids"), std::string::npos) << text;
    fs::remove_all(path_);
  }
}

TEST_F(RuntimeDirTest, IdsAreSmallAndDifferInAllProcesses) {
  Instance one, other;
  std::set<uint32_t> seen;
  for (int i = 0; i < 1000; ++i) {
    for (auto* instance : {&one, &other}) {
      const uint32_t id = (*instance)->alloc_id(IdKind::kJetty);
      EXPECT_TRUE(seen.insert(id).second);
      EXPECT_GE(id, 1024u);
      EXPECT_LE(id, kMaxChosenId);
    }
  }
  // The same ids are free for another kind.
  EXPECT_TRUE(seen.contains(one->alloc_id(IdKind::kJfr)));
}

TEST_F(RuntimeDirTest, ExhaustionOfIdsIsReported) {
  Instance one, other;
  std::set<uint32_t> seen;
  const uint32_t others = other->alloc_id(IdKind::kJetty);
  for (uint32_t i = 0; i < kClaimableIds - kBlockIds; ++i) {
    ASSERT_TRUE(seen.insert(one->alloc_id(IdKind::kJetty)).second);
  }
  try {
    one->alloc_id(IdKind::kJetty);
    FAIL() << "an id that is in use";
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), URMA_ENOMEM);
    EXPECT_NE(std::string(error.what()).find("64496 ids of kind jetty"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find(path_), std::string::npos);
  }
  // Ids claimed by the other stay usable there, and freed ones are reused.
  EXPECT_NE(other->alloc_id(IdKind::kJetty), others);
  const uint32_t freed = *std::next(seen.begin(), 30000);
  one->free_id(IdKind::kJetty, 0, freed);
  one->free_id(IdKind::kJetty, 0, freed);
  EXPECT_EQ(one->alloc_id(IdKind::kJetty), freed);
  EXPECT_EQ(status_of([&] { one->alloc_id(IdKind::kJetty); }), URMA_ENOMEM);
}

TEST_F(RuntimeDirTest, TokenIdsCarryTheSlotAndAreReusedLate) {
  Instance instance;
  const uint32_t first = instance->alloc_id(IdKind::kToken);
  EXPECT_EQ(first >> 16, instance->slot());
  instance->free_id(IdKind::kToken, 0, first);
  std::set<uint32_t> seen{first};
  for (int i = 0; i < 65534; ++i) {
    EXPECT_TRUE(seen.insert(instance->alloc_id(IdKind::kToken)).second);
  }
  EXPECT_EQ(instance->alloc_id(IdKind::kToken), first);
  EXPECT_EQ(status_of([&] { instance->alloc_id(IdKind::kToken); }), URMA_ENOMEM);
  instance->free_id(IdKind::kToken, 0, first + 5);
  EXPECT_EQ(instance->alloc_id(IdKind::kToken), first + 5);
}

// An id that a process may assign cannot be chosen elsewhere, and vice versa.
TEST_F(RuntimeDirTest, ChosenIdsAreNotHandedOut) {
  Instance one, other;
  const uint32_t id = one->alloc_id(IdKind::kJetty);
  EXPECT_EQ(status_of([&] { one->reserve_id(IdKind::kJetty, 1, id); }), URMA_EEXIST);
  EXPECT_EQ(status_of([&] { other->reserve_id(IdKind::kJetty, 0, id); }), URMA_EEXIST);
  EXPECT_EQ(status_of([&] { other->reserve_id(IdKind::kJetty, 0, id + 1); }), URMA_EEXIST);
  one->reserve_id(IdKind::kJetty, 0, id + 1);
  EXPECT_EQ(other->owner_slot(IdKind::kJetty, one->eids()[0], id + 1), one->slot());
  EXPECT_EQ(one->alloc_id(IdKind::kJetty), id + 2);
  one->free_id(IdKind::kJetty, 0, id + 1);
  one->free_id(IdKind::kJetty, 0, id);
  // Nothing of the refused attempts is left.
  one->reserve_id(IdKind::kJetty, 0, id);
}

TEST_F(RuntimeDirTest, ChosenIdsHaveOneOwner) {
  Instance one, other;
  one->reserve_id(IdKind::kJetty, 0, 17);
  EXPECT_EQ(status_of([&] { one->reserve_id(IdKind::kJetty, 0, 17); }), URMA_EEXIST);
  EXPECT_EQ(status_of([&] { other->reserve_id(IdKind::kJetty, 0, 17); }), URMA_EEXIST);
  EXPECT_EQ(status_of([&] { other->reserve_id(IdKind::kJetty, 0, 0); }), URMA_EINVAL);
  EXPECT_EQ(status_of([&] { other->reserve_id(IdKind::kJetty, 0, 65536); }), URMA_EINVAL);
  EXPECT_EQ(status_of([&] { other->reserve_id(IdKind::kJetty, 99, 5); }), URMA_EINVAL);
  EXPECT_EQ(status_of([&] { other->reserve_id(IdKind::kToken, 0, 5); }), URMA_EINVAL);
  other->reserve_id(IdKind::kJetty, 1, 17);
  other->reserve_id(IdKind::kJfr, 0, 17);

  const auto eid0 = one->eids()[0], eid1 = one->eids()[1];
  for (auto* instance : {&one, &other}) {
    EXPECT_EQ((*instance)->owner_slot(IdKind::kJetty, eid0, 17), one->slot());
    EXPECT_EQ((*instance)->owner_slot(IdKind::kJetty, eid1, 17), other->slot());
    EXPECT_EQ((*instance)->owner_slot(IdKind::kJfr, eid0, 17), other->slot());
    EXPECT_EQ((*instance)->owner_slot(IdKind::kJfr, eid1, 17), std::nullopt);
  }
  one->free_id(IdKind::kJetty, 0, 17);
  EXPECT_EQ(one->owner_slot(IdKind::kJetty, eid0, 17), std::nullopt);
  other->reserve_id(IdKind::kJetty, 0, 17);
  EXPECT_EQ(one->owner_slot(IdKind::kJetty, eid0, 17), other->slot());
}

TEST_F(RuntimeDirTest, OwnerOfAnIdIsFoundWhileItLives) {
  Instance one;
  const auto eid = one->eids()[0];
  uint32_t id = 0, token_id = 0;
  {
    Instance other;
    id = other->alloc_id(IdKind::kJetty);
    token_id = other->alloc_id(IdKind::kToken);
    EXPECT_EQ(one->owner_slot(IdKind::kJetty, eid, id), other->slot());
    EXPECT_EQ(one->owner_slot(IdKind::kJfr, one->eids()[1], id), other->slot());
    EXPECT_EQ(one->owner_slot(IdKind::kToken, eid, token_id), other->slot());
    EXPECT_EQ(one->owner_slot(IdKind::kJetty, urma_eid_t{}, id), std::nullopt);
    EXPECT_EQ(one->owner_slot(IdKind::kJetty, eid, token_id), std::nullopt);
  }
  EXPECT_EQ(one->owner_slot(IdKind::kJetty, eid, id), std::nullopt);
  EXPECT_EQ(one->owner_slot(IdKind::kToken, eid, token_id), std::nullopt);
  EXPECT_EQ(one->owner_slot(IdKind::kJetty, eid, one->alloc_id(IdKind::kJetty)), one->slot());
  EXPECT_EQ(one->owner_slot(IdKind::kToken, eid, one->slot() << 16 | 1), one->slot());
  EXPECT_EQ(one->owner_slot(IdKind::kJetty, eid, 0), std::nullopt);
}

// A process that can open the file can lock any of its bytes.
TEST_F(RuntimeDirTest, AnInvalidLockHasNoOwner) {
  Instance one;
  for (const off_t bytes : {1, 65537, 0}) {
    const Fd fd(::open((path_ + "/ids").c_str(), O_RDWR | O_CLOEXEC));
    struct flock range = {};
    range.l_type = F_WRLCK;
    range.l_len = bytes;
    ASSERT_EQ(::fcntl(fd.get(), F_OFD_SETLK, &range), 0);
    EXPECT_EQ(one->owner_slot(IdKind::kJetty, one->eids()[0], 9), std::nullopt) << bytes;
    EXPECT_EQ(status_of([&] { one->reserve_id(IdKind::kJetty, 0, 9); }), URMA_EEXIST) << bytes;
  }
  one->reserve_id(IdKind::kJetty, 0, 9);
}

// A child that outlives its parent does not keep the ids of the parent.
TEST_F(RuntimeDirTest, AForkedChildHoldsNoIds) {
  int ends[2], life[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  ASSERT_EQ(::pipe2(life, O_CLOEXEC), 0);
  Child child([&] {
    auto& instance = *new Instance;
    const uint32_t id = instance->alloc_id(IdKind::kJetty);
    instance->reserve_id(IdKind::kJetty, 0, 5);
    if (::fork() == 0) {
      ::close(life[1]);
      char end;
      // Until the test closes its end.
      ::_exit(::write(ends[1], "c", 1) == 1 && ::read(life[0], &end, 1) == 0 ? 0 : 1);
    }
    return id;
  });
  const uint32_t id = child.answer();
  char left;
  ASSERT_EQ(::read(ends[0], &left, 1), 1);
  ::close(ends[0]);
  ::close(ends[1]);
  Instance survivor;
  const auto eid = survivor->eids()[0];
  EXPECT_NE(survivor->owner_slot(IdKind::kJetty, eid, id), std::nullopt);
  child.kill();
  EXPECT_EQ(survivor->owner_slot(IdKind::kJetty, eid, id), std::nullopt);
  survivor->reserve_id(IdKind::kJetty, 0, 5);
  ::close(life[0]);
  ::close(life[1]);
}

TEST_F(RuntimeDirTest, UasidIsUniqueAndMayBeRequested) {
  Instance one, other(kWished);
  EXPECT_NE(one->uasid(), 0u);
  EXPECT_LE(one->uasid(), 0xffffffu);
  EXPECT_EQ(other->uasid(), kWished);
  const auto before = names();
  EXPECT_EQ(status_of([] { Instance third(kWished); }), URMA_EEXIST);
  EXPECT_EQ(status_of([] { Instance third(0x1000000); }), URMA_EINVAL);
  EXPECT_EQ(names(), before);
}

uint32_t hold_everything() {
  auto& instance = *new Instance(kWished);
  instance->reserve_id(IdKind::kJetty, 0, 5);
  instance->reserve_id(IdKind::kJfr, 1, 6);
  std::ofstream(
      urma::format("{}/{}", instance->path(), instance->socket_name(instance->slot(), "shm")));
  return instance->slot();
}

TEST_F(RuntimeDirTest, SurvivorsCleanUp) {
  Child child(hold_everything);
  const uint32_t slot = child.answer();
  Instance survivor;
  const auto eid = survivor->eids()[0];
  EXPECT_EQ(survivor->owner_slot(IdKind::kJetty, eid, 5), slot);
  EXPECT_EQ(names().size(), 4u + 3u);
  const uint64_t killed = monotonic_ns();
  child.kill();
  while (names().size() != 4 && monotonic_ns() - killed < kPatienceNs) std::this_thread::yield();
  EXPECT_EQ(names(),
            (std::set<std::string>{"eids", "ids", urma::format("slot-{}", survivor->slot()),
                                   urma::format("uasid-{:06x}", survivor->uasid())}));
  EXPECT_EQ(survivor->owner_slot(IdKind::kJetty, eid, 5), std::nullopt);
  RecordProperty("cleared_after_us", static_cast<int>((monotonic_ns() - killed) / 1000));
  survivor->reserve_id(IdKind::kJetty, 0, 5);
}

TEST_F(RuntimeDirTest, WithoutSurvivorsTheNextProcessCleansUp) {
  {
    Child child(hold_everything);
    child.answer();
  }
  EXPECT_EQ(names().size(), 5u);
  std::ofstream(path_ + "/tmp-1-1");
  Instance next(kWished);
  EXPECT_EQ(names().size(), 4u);
}

// Otherwise many processes that clean up would keep it from creating one.
TEST_F(RuntimeDirTest, NewFilesOfALivingProcessAreKept) {
  Child child(hold_everything);  // first: forked without threads
  const auto childs_name = urma::format("tmp-{}-77", child.answer());
  Instance living;
  const auto its_name = urma::format("tmp-{}-77", living->slot());
  std::ofstream(path_ + "/" + its_name);
  std::ofstream(path_ + "/tmp-65535-1");
  {
    Instance next;
    EXPECT_TRUE(names().contains(its_name));
    EXPECT_FALSE(names().contains("tmp-65535-1"));
  }
  std::ofstream(path_ + "/" + childs_name);
  const uint64_t killed = monotonic_ns();
  child.kill();
  Instance last;
  // `living` or `last` removes it, whichever locks the dead process's slot.
  while (names().contains(childs_name) && monotonic_ns() - killed < kPatienceNs) {
    std::this_thread::yield();
  }
  EXPECT_FALSE(names().contains(childs_name));
  EXPECT_TRUE(names().contains(its_name));
}

// A query for the owner, or a cleanup, holds the dead owner's lock for a moment.
TEST_F(RuntimeDirTest, RestartedOwnerGetsItsIdDuringLookups) {
  for (int round = 0; round < 10; ++round) {
    Child child(hold_everything);
    child.answer();
    Instance looker, restarted;
    std::atomic<bool> stop{false};
    std::thread looking([&] {
      while (!stop) looker->owner_slot(IdKind::kJetty, looker->eids()[0], 5);
    });
    child.kill();
    EXPECT_EQ(status_of([&] { restarted->reserve_id(IdKind::kJetty, 0, 5); }), 0);
    stop = true;
    looking.join();
  }
}

TEST_F(RuntimeDirTest, ConcurrentProcessesGetDifferentSlots) {
  int gate[2];
  ASSERT_EQ(::pipe2(gate, O_CLOEXEC), 0);
  std::vector<std::unique_ptr<Child>> children;
  for (int i = 0; i < 24; ++i) {
    children.push_back(std::make_unique<Child>([&] {
      ::close(gate[1]);
      char ignored;
      // Ends when the parent closes its end.
      if (::read(gate[0], &ignored, 1) != 0) ::_exit(1);
      auto& instance = *new Instance;
      uint32_t sum = 0;
      for (const auto& eid : instance->eids()) sum += eid.raw[15];
      return instance->slot() << 8 | (sum & 0xff);
    }));
  }
  ::close(gate[0]);
  ::close(gate[1]);
  std::set<uint32_t> slots, eid_sums;
  for (auto& child : children) {
    const uint32_t answer = child->answer();
    slots.insert(answer >> 8);
    eid_sums.insert(answer & 0xff);
  }
  EXPECT_EQ(slots.size(), children.size());
  EXPECT_EQ(eid_sums.size(), 1u);
}

TEST_F(RuntimeDirTest, LackOfDescriptorsIsReported) {
  Child child([] {
    // Enough descriptors for the service thread, and none for the runtime.
    EnvSettings settings;
    settings.load();
    ServiceThread service;
    service.start();
    const int next = ::dup(0);
    rlimit limit{static_cast<rlim_t>(next), static_cast<rlim_t>(next)};
    ::close(next);
    ::setrlimit(RLIMIT_NOFILE, &limit);
    try {
      service.run([&] { ProcessRuntime runtime(service, settings, 0); });
    } catch (const Error& error) {
      return static_cast<uint32_t>(std::string(error.what()).find("RLIMIT_NOFILE") !=
                                   std::string::npos);
    }
    return 2u;
  });
  EXPECT_EQ(child.answer(), 1u);
}

// What is refused for one name is refused for all: the first refusal ends the start.
TEST_F(RuntimeDirTest, RefusedLocksFailTheStartAndAreReported) {
  SKIP_UNLESS_CALLS_CAN_BE_REFUSED();
  fs::create_directory(path_);
  ::chmod(path_.c_str(), 0700);
  const auto refused = [&](const std::function<void()>& refuse) {
    Child child([&] {
      EnvSettings settings;
      settings.load();
      ServiceThread service;
      service.start();
      uint32_t told = 0;
      service.run([&] {
        refuse();
        try {
          ProcessRuntime runtime(service, settings, 0);
        } catch (const Error& error) {
          const std::string text = error.what();
          told = text.find(path_) != std::string::npos &&
                 text.find(std::strerror(EPERM)) != std::string::npos &&
                 text.find("seccomp filters") != std::string::npos;
        }
      });
      return told;
    });
    EXPECT_EQ(child.answer(), 1u);
    EXPECT_EQ(names(), std::set<std::string>());
  };
  refused([] { urma_test::refuse(SYS_flock, EPERM); });
  refused([] { urma_test::refuse_where(SYS_flock, 1, LOCK_EX | LOCK_NB, EPERM); });
}

// The cost is linear in the number of entries, not quadratic.
TEST_F(RuntimeDirTest, ManyDeadEntriesAreCleanedUpAtOnce) {
  constexpr uint32_t kDead = 8000;
  fs::create_directory(path_);
  ::chmod(path_.c_str(), 0700);
  for (uint32_t slot = 1; slot <= kDead; ++slot) {
    std::ofstream(path_ + "/" + slot_name(slot));
    std::ofstream(urma::format("{}/{}.shm", path_, slot));
    std::ofstream(urma::format("{}/uasid-{:06x}", path_, slot));
  }
  testing::internal::CaptureStderr();
  entries_read = 0;
  Instance instance;
  // The whole directory, several times.
  EXPECT_LT(entries_read, 6 * 3 * kDead);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(names().size(), 4u);
}

TEST_F(RuntimeDirTest, AFileLockedAgainIsNotTakenForTheOldOne) {
  Instance instance;
  const int dir = instance->dir_fd();
  EXPECT_FALSE(lock_abandoned(dir, "none").has_value());
  EXPECT_FALSE(is_held(dir, "none"));
  const auto own = slot_name(instance->slot());
  EXPECT_TRUE(is_held(dir, own));
  EXPECT_FALSE(lock_abandoned(dir, own).has_value());
  EXPECT_EQ(sweep_slots(dir, {instance->slot()}), std::set<uint32_t>{instance->slot()});
  EXPECT_TRUE(names().count(own));
}

}  // namespace
}  // namespace urma::core
