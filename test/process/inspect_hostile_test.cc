// SPDX-License-Identifier: MIT
//
// Clients and servers of inspection may break all rules. Both sides are written here by hand.
#include <fcntl.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "test/process/inspect_reader.h"

namespace urma_test {
namespace {

constexpr uint32_t kMagic = 0x75727669;
constexpr uint32_t kVersion = 2;
constexpr uint32_t kQueues = 1;
constexpr uid_t kNobody = 65534;
constexpr char kLiarsSlot[] = "slot-777";
constexpr char kLiarsSocket[] = "777.core";
constexpr int kAllSeals = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

struct RawRequest {
  uint32_t magic = kMagic, version = kVersion, topic = kQueues, reserved = 0;
};
struct RawAnswer {
  uint32_t magic = kMagic, version = kVersion, topic = kQueues, result = 0;
  uint32_t record_bytes = sizeof(urma_ext_queue_t), count = 1;
};

void require(bool holds, const char* what) {
  if (!holds) throw std::runtime_error(std::string(what) + ": " + std::strerror(errno));
}

// Names are relative to the runtime directory, which is the working directory.
int raw_socket(const std::string& name, int (*attach)(int, const sockaddr*, socklen_t)) {
  const int fd = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  name.copy(address.sun_path, sizeof(address.sun_path) - 1);
  require(attach(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0,
          name.c_str());
  return fd;
}

bool ended(int fd) {
  pollfd end = {fd, POLLIN, 0};
  char byte;
  return ::poll(&end, 1, static_cast<int>(patience(seconds(10)).count())) == 1 &&
         ::recv(fd, &byte, 1, MSG_DONTWAIT) <= 0;
}

class InspectHostileTest : public ProcessTest {
 protected:
  // The slot of the only process that has one.
  std::string socket_name() const {
    for (const auto& name : runtime_entries()) {
      if (name.size() > 5 && name.compare(name.size() - 5, 5, ".core") == 0) return name;
    }
    throw std::runtime_error("no process serves tools");
  }
  void enter() const { require(::chdir(runtime_dir().c_str()) == 0, "chdir"); }
};

struct Known {
  uint32_t pid;
  QueueId queue;
};

// Waits for no one, so that its service thread alone serves.
Body owner() {
  return [](Channel& channel) {
    std::vector<char> memory(4096);
    OwnedEndpoint endpoint;
    urma_target_seg_t* segment = endpoint.add(memory.data(), memory.size());
    for (int i = 0; i < 4; ++i) endpoint.post_receive(segment, memory.data(), memory.size());
    channel.send(Known{static_cast<uint32_t>(::getpid()), endpoint.queue_id()});
    channel.sync();
  };
}

// Asks the owner, and sends it a message.
void use(const Known& known) {
  std::vector<char> memory(64);
  OwnedEndpoint endpoint;
  urma_target_seg_t* segment = endpoint.add(memory.data(), memory.size());
  urma_target_jetty_t* peer = endpoint.import(known.queue);
  EXPECT_EQ(queues(known.pid).size(), 4u);
  urma_sge_t here = piece(segment, memory.data(), 8);
  endpoint.post(send_request(peer, &here));
  wait_for_success(endpoint.send_jfc, 0);
  EXPECT_EQ(queues(known.pid).size(), 4u);
}

TEST_F(InspectHostileTest, MalformedRequestsAreDisconnected) {
  Child target("owner", owner());
  const auto known = target.channel().receive<Known>();
  const std::string name = socket_name();
  Child guest("guest", [&, known](Channel&) {
    enter();
    RawRequest garbage;
    garbage.magic = 4711;
    int fd = raw_socket(name, ::connect);
    require(::send(fd, &garbage, sizeof(garbage), 0) > 0, "send");
    EXPECT_TRUE(ended(fd));
    // Half a request is a request of a wrong size.
    fd = raw_socket(name, ::connect);
    require(::send(fd, &garbage, 5, 0) > 0, "send");
    EXPECT_TRUE(ended(fd));
    // Silence ends after a second.
    fd = raw_socket(name, ::connect);
    EXPECT_TRUE(ended(fd));
    use(known);
  });
  guest.expect_success();
  target.channel().sync();
  target.expect_success();
}

TEST_F(InspectHostileTest, HeldConnectionsDelayNoOtherProcess) {
  constexpr int kHeld = 200;
  Child target("owner", owner());
  const auto known = target.channel().receive<Known>();
  const std::string name = socket_name();
  Child hostile("hostile", [&](Channel& channel) {
    enter();
    for (int i = 0; i < kHeld; ++i) raw_socket(name, ::connect);
    channel.sync();
    channel.sync();
  });
  hostile.channel().sync();
  Child guest("guest", [known](Channel&) { use(known); });
  guest.expect_success();
  hostile.channel().sync();
  hostile.expect_success();
  target.channel().sync();
  target.expect_success();
}

TEST_F(InspectHostileTest, AnotherUserIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to become another user";
  Child target("owner", owner());
  const auto known = target.channel().receive<Known>();
  const std::string name = socket_name();
  // Removes the protection of the modes of directory and socket.
  ASSERT_EQ(::chmod(runtime_dir().c_str(), 0755), 0);
  ASSERT_EQ(::chmod((runtime_dir() + "/" + name).c_str(), 0666), 0);
  Child stranger("stranger", [&](Channel& channel) {
    enter();
    bool dropped = ::setgroups(0, nullptr) == 0 && ::setresgid(kNobody, kNobody, kNobody) == 0 &&
                   ::setresuid(kNobody, kNobody, kNobody) == 0;
    channel.send(dropped);
    if (!dropped) return;
    const int fd = raw_socket(name, ::connect);
    const RawRequest request;
    ::send(fd, &request, sizeof(request), MSG_NOSIGNAL);
    EXPECT_TRUE(ended(fd));
  });
  const bool dropped = stranger.channel().receive<bool>();
  stranger.expect_success();
  ASSERT_EQ(::chmod(runtime_dir().c_str(), 0700), 0);
  Child own("own", [known](Channel&) { use(known); });
  own.expect_success();
  target.channel().sync();
  target.expect_success();
  if (!dropped)
    GTEST_SKIP() << "root may not become another user here; run in a namespace that has user 65534";
}

// -------------------------------------------------------------------------------------------------
// Who answers
// -------------------------------------------------------------------------------------------------

urma_ext_queue_t some_queue() {
  urma_ext_queue_t queue = {};
  std::strcpy(queue.device, "urma_shm0");
  return queue;
}

int memory_with(const void* data, size_t bytes, int seals) {
  const int fd = ::memfd_create("lie", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  require(::write(fd, data, bytes) == static_cast<ssize_t>(bytes), "write");
  if (seals != 0) require(::fcntl(fd, F_ADD_SEALS, seals) == 0, "F_ADD_SEALS");
  return fd;
}

int memory_with(const urma_ext_queue_t& queue, int seals = kAllSeals) {
  return memory_with(&queue, sizeof(queue), seals);
}

void answer_with(int socket, const RawAnswer& answer, const std::vector<int>& fds) {
  iovec part = {const_cast<RawAnswer*>(&answer), sizeof(answer)};
  alignas(cmsghdr) char control[CMSG_SPACE(4 * sizeof(int))] = {};
  msghdr header = {};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (!fds.empty()) {
    const size_t bytes = fds.size() * sizeof(int);
    header.msg_control = control;
    header.msg_controllen = CMSG_SPACE(bytes);
    cmsghdr* attached = CMSG_FIRSTHDR(&header);
    attached->cmsg_level = SOL_SOCKET;
    attached->cmsg_type = SCM_RIGHTS;
    attached->cmsg_len = CMSG_LEN(bytes);
    std::memcpy(CMSG_DATA(attached), fds.data(), bytes);
  }
  require(::sendmsg(socket, &header, MSG_NOSIGNAL) > 0, "sendmsg");
}

struct Lie {
  const char* what;
  std::function<void(int socket)> tell;
  urma_status_t expected = URMA_FAIL;
};

std::vector<Lie> lies() {
  RawAnswer two, small, huge, none, other_magic, other_version, other_topic;
  two.count = 2;
  small.record_bytes = 8;
  huge.count = UINT32_MAX;
  none.count = 0;
  other_magic.magic = 1;
  other_version.version = 99;
  other_topic.topic = 2;
  urma_ext_queue_t endless = some_queue(), odd = some_queue();
  std::memset(endless.device, 'x', sizeof(endless.device));
  const uint32_t no_kind = 77;
  std::memcpy(&odd.kind, &no_kind, sizeof(no_kind));
  const auto with = [](const RawAnswer& answer, const urma_ext_queue_t& queue) {
    return [=](int socket) { answer_with(socket, answer, {memory_with(queue)}); };
  };
  return {
      {"the truth", with({}, some_queue()), URMA_SUCCESS},
      {"memory that is not sealed",
       [](int socket) { answer_with(socket, {}, {memory_with(some_queue(), 0)}); }},
      {"memory that can be written",
       [](int socket) {
         answer_with(socket, {},
                     {memory_with(some_queue(), F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)});
       }},
      {"a file", [](int socket) { answer_with(socket, {}, {::open("/proc/self/exe", O_RDONLY)}); }},
      {"a pipe",
       [](int socket) {
         int ends[2];
         require(::pipe(ends) == 0, "pipe");
         answer_with(socket, {}, {ends[0]});
       }},
      {"short memory",
       [](int socket) { answer_with(socket, {}, {memory_with("x", 1, kAllSeals)}); }},
      {"more records than there are", with(two, some_queue())},
      {"more records than can be", with(huge, some_queue())},
      {"small records", with(small, some_queue())},
      {"none, with memory", with(none, some_queue())},
      {"one, without memory", [](int socket) { answer_with(socket, {}, {}); }},
      {"one, with two memories",
       [](int socket) {
         answer_with(socket, {}, {memory_with(some_queue()), memory_with(some_queue())});
       }},
      {"another magic", with(other_magic, some_queue())},
      {"another version", with(other_version, some_queue())},
      {"another topic", with(other_topic, some_queue())},
      {"a text without an end", with({}, endless)},
      {"a kind that there is not", with({}, odd)},
      {"half an answer",
       [](int socket) { require(::send(socket, "half", 4, MSG_NOSIGNAL) == 4, "send"); }},
      {"the end", [](int) {}},
  };
}

constexpr int kSilence = -1;

// Answers each client with the lie that its channel has named last. Clients that only look for
// peers make no request.
void lie(Channel& channel) {
  const int slot = ::open(kLiarsSlot, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  require(::flock(slot, LOCK_EX | LOCK_NB) == 0, "flock");
  const int listener = raw_socket(kLiarsSocket, ::bind);
  require(::listen(listener, 100) == 0, "listen");
  channel.send(static_cast<uint32_t>(::getpid()));
  const auto all_lies = lies();
  for (int next = channel.receive<int>(); next != kSilence;) {
    channel.sync();
    pollfd ready[] = {{channel.fd(), POLLIN, 0}, {listener, POLLIN, 0}};
    while ((ready[0].revents & POLLIN) == 0) {
      require(::poll(ready, 2, -1) > 0, "poll");
      if ((ready[1].revents & POLLIN) == 0) continue;
      const int guest = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
      require(guest >= 0, "accept4");
      RawRequest request;
      if (::recv(guest, &request, sizeof(request), 0) == sizeof(request)) {
        all_lies[static_cast<size_t>(next)].tell(guest);
      }
      ::close(guest);
    }
    next = channel.receive<int>();
  }
  channel.sync();
  channel.sync();
}

void ask_the_liar(Channel& channel) {
  const auto pid = channel.receive<uint32_t>();
  ASSERT_EQ(urma_init(nullptr), URMA_SUCCESS);
  const auto all_lies = lies();
  for (size_t i = 0; i < all_lies.size(); ++i) {
    SCOPED_TRACE(all_lies[i].what);
    channel.send(static_cast<int>(i));
    channel.sync();
    urma_ext_queue_t queue;
    uint32_t count = 1;
    EXPECT_EQ(ask([&] { return urma_ext_query_queues(pid, &queue, &count); }),
              all_lies[i].expected);
    EXPECT_EQ(count, 1u);
  }
  channel.send(kSilence);
  channel.sync();
  uint32_t count = 0;
  EXPECT_EQ(urma_ext_query_queues(pid, nullptr, &count), URMA_ETIMEOUT);
  EXPECT_TRUE(is_listed(pid));
  channel.sync();
  EXPECT_EQ(urma_uninit(), URMA_SUCCESS);
}

TEST_F(InspectHostileTest, ImpossibleAnswersAreRefused) {
  run_two(
      "liar",
      [&](Channel& channel) {
        enter();
        lie(channel);
      },
      "asker", ask_the_liar);
}

}  // namespace
}  // namespace urma_test
