// SPDX-License-Identifier: MIT
//
// What tests ask of the kernel before they rely on it. Under user emulation it can lack calls that
// every real one has.
#ifndef TEST_PROCESS_KERNEL_H_
#define TEST_PROCESS_KERNEL_H_

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstring>
#include <vector>

namespace urma_test {

// Whether the kernel copies between processes, and is asked to.
inline bool copies_between_processes() {
  const char* const way = ::getenv("URMA_SHM_COPY");
  if (way != nullptr && std::strcmp(way, "staged") == 0) return false;
  char from = 1;
  char to = 0;
  const iovec local = {&to, 1};
  const iovec remote = {&from, 1};
  return ::process_vm_readv(::getpid(), &local, 1, &remote, 1, 0) == 1;
}

#define SKIP_UNLESS_THE_KERNEL_COPIES()                                                      \
  do {                                                                                       \
    if (!::urma_test::copies_between_processes())                                            \
      GTEST_SKIP() << "the kernel refuses process_vm_readv, or URMA_SHM_COPY is staged, so " \
                      "the peer's service thread has a share in each copy";                  \
  } while (0)

// The number that the next descriptor would have.
inline int next_descriptor() {
  const int next = ::dup(STDERR_FILENO);
  ::close(next);
  return next;
}

// Whether the kernel closes descriptors of a message for which the receiver has no room. Where it
// does not, the program never learns their numbers.
inline bool closes_surplus_descriptors() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return false;
  const std::vector<int> sent(100, ends[0]);
  std::vector<char> control(CMSG_SPACE(sent.size() * sizeof(int)));
  char byte = 0;
  iovec bytes = {&byte, 1};
  msghdr message = {nullptr, 0, &bytes, 1, control.data(), control.size(), 0};
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sent.size() * sizeof(int));
  std::memcpy(CMSG_DATA(header), sent.data(), sent.size() * sizeof(int));
  bool closed = ::sendmsg(ends[0], &message, 0) == 1;
  const int next = next_descriptor();
  message.msg_controllen = CMSG_LEN(sizeof(int));
  closed = closed && ::recvmsg(ends[1], &message, MSG_CMSG_CLOEXEC) == 1;
  // Numbers are given in order.
  closed = closed && next_descriptor() == next + 1;
  ::close(next);
  ::close(ends[0]);
  ::close(ends[1]);
  return closed;
}

#define SKIP_UNLESS_SURPLUS_DESCRIPTORS_ARE_CLOSED()                                        \
  do {                                                                                      \
    static const bool closed = ::urma_test::closes_surplus_descriptors();                   \
    if (!closed) GTEST_SKIP() << "the kernel leaves descriptors open that nobody can name"; \
  } while (0)

// Whether the kernel says that memory cannot be written, before anybody writes it.
inline bool tells_of_memory_that_is_not_writable() {
  const auto bytes = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  void* const page = ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const bool told = page != MAP_FAILED && ::madvise(page, bytes, MADV_POPULATE_WRITE) != 0;
  if (page != MAP_FAILED) ::munmap(page, bytes);
  return told;
}

#define SKIP_UNLESS_THE_KERNEL_TELLS_WHAT_IS_WRITABLE()                                 \
  do {                                                                                  \
    if (!::urma_test::tells_of_memory_that_is_not_writable())                           \
      GTEST_SKIP() << "the kernel does not say what is writable (MADV_POPULATE_WRITE)"; \
  } while (0)

}  // namespace urma_test

#endif  // TEST_PROCESS_KERNEL_H_
