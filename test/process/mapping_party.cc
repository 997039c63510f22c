// SPDX-License-Identifier: MIT
#include "test/process/mapping_party.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "test/process/configs.h"

namespace urma_test {
namespace {

// One reading, which misses some if other threads map or unmap meanwhile.
int look_at_memfd_areas(const void* start, uint64_t bytes) {
  const auto first = reinterpret_cast<uint64_t>(start);
  std::ifstream maps("/proc/self/maps");
  int found = 0;
  for (std::string line; std::getline(maps, line);) {
    const uint64_t from = std::stoull(line, nullptr, 16);
    const uint64_t to = std::stoull(line.substr(line.find('-') + 1), nullptr, 16);
    const bool meets = from < first + bytes && to > first;
    if (meets && line.find("/memfd:") != std::string::npos) ++found;
  }
  return found;
}

}  // namespace

std::string why_not_in_place() {
  if (::sysconf(_SC_PAGESIZE) != kPage) return "needs pages of 4 KiB";
  constexpr uint64_t kFeatureMove = 1 << 16;  // newer than some headers
  const int fd = static_cast<int>(::syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK));
  if (fd < 0) {
    return "needs userfaultfd: CAP_SYS_PTRACE, vm.unprivileged_userfaultfd=1 or access to "
           "/dev/userfaultfd";
  }
  uffdio_api api = {};
  api.api = UFFD_API;
  const int result = ::ioctl(fd, UFFDIO_API, &api);
  ::close(fd);
  return result == 0 && (api.features & kFeatureMove) != 0 ? "" : "needs Linux 6.8";
}

Pages::Pages(uint64_t bytes) : bytes_(bytes) {
  void* const whole = ::mmap(nullptr, bytes + 2 * kPage, PROT_NONE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  data_ = static_cast<char*>(whole) + kPage;
  if (whole == MAP_FAILED || ::mprotect(data_, bytes, PROT_READ | PROT_WRITE) != 0) {
    throw std::runtime_error("no memory for the test");
  }
}

Pages::~Pages() { ::munmap(data_ - kPage, bytes_ + 2 * kPage); }

void fill(char* data, uint64_t bytes) {
  for (uint64_t at = 0; at < bytes; at += kPage) *word_at(data, at) = at / kPage + 1;
}

void expect_filled(const char* data, uint64_t bytes) {
  for (uint64_t at = 0; at < bytes; at += kPage) {
    ASSERT_EQ(*word_at(const_cast<char*>(data), at), at / kPage + 1) << "page " << at / kPage;
  }
}

int memfd_areas(const void* start, uint64_t bytes) {
  int found = look_at_memfd_areas(start, bytes);
  for (int before = -1; found != before;) {
    before = found;
    found = look_at_memfd_areas(start, bytes);
  }
  return found;
}

int memfd_areas() { return memfd_areas(nullptr, UINT64_MAX); }

int open_descriptors() {
  int found = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    found += entry.path().empty() ? 0 : 1;
  }
  return found;
}

std::vector<urma_ext_part_t> parts_of(const urma_target_seg_t* segment) {
  uint32_t count = 0;
  EXPECT_EQ(urma_ext_query_segment(segment, nullptr, &count), URMA_SUCCESS);
  std::vector<urma_ext_part_t> parts(count);
  EXPECT_EQ(urma_ext_query_segment(segment, parts.data(), &count), URMA_SUCCESS);
  EXPECT_EQ(count, parts.size());
  return parts;
}

void expect_all_mapped(const urma_target_seg_t* segment) {
  uint64_t next = segment->seg.ubva.va;
  for (const urma_ext_part_t& part : parts_of(segment)) {
    EXPECT_EQ(part.va, next);
    EXPECT_EQ(part.path, URMA_EXT_PATH_MAPPED) << urma_ext_reason_text(part.reason);
    EXPECT_EQ(part.reason, URMA_EXT_REASON_NONE);
    next += part.len;
  }
  EXPECT_EQ(next, segment->seg.ubva.va + segment->seg.len);
}

void expect_all_copied(const urma_target_seg_t* segment, urma_ext_reason_t reason) {
  uint64_t next = segment->seg.ubva.va;
  for (const urma_ext_part_t& part : parts_of(segment)) {
    EXPECT_EQ(part.va, next);
    EXPECT_EQ(part.path, URMA_EXT_PATH_COPIED);
    EXPECT_EQ(part.reason, reason) << urma_ext_reason_text(part.reason);
    next += part.len;
  }
  EXPECT_EQ(next, segment->seg.ubva.va + segment->seg.len);
}

urma_target_seg_t* add_under(Endpoint& endpoint, urma_token_id_t* token_id, uint32_t token,
                             void* memory, uint64_t bytes) {
  urma_seg_cfg_t cfg = seg_config(memory, bytes, kAllAccess);
  cfg.token_id = token_id;
  cfg.token_value.token = token;
  cfg.flag.bs.token_policy = URMA_TOKEN_PLAIN_TEXT;
  cfg.flag.bs.token_id_valid = 1;
  urma_target_seg_t* segment = urma_register_seg(endpoint.ctx, &cfg);
  EXPECT_NE(segment, nullptr);
  return segment;
}

int signal_of_a_store(volatile uint64_t* word) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGSEGV, SIG_DFL);
    *word = 99;
    ::_exit(0);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

Importer::Importer(const Offer& offer, bool mapped)
    : queue(endpoint.import(offer.queue)),
      remote(endpoint.import(offer.segment, mapped)),
      local_(endpoint.add(words_.data(), sizeof(words_), URMA_ACCESS_LOCAL_ONLY)) {}

void Importer::import_again(const SegmentId& id, bool mapped) {
  endpoint.unimport(remote);
  remote = endpoint.import(id, mapped);
}

void Importer::turn_to(const Offer& offer) {
  endpoint.unimport(queue);
  queue = endpoint.import(offer.queue);
  import_again(offer.segment);
}

urma_cr_status_t Importer::end_of(const urma_jfs_wr_t& wr) {
  endpoint.post(wr);
  return wait_for(endpoint.send_jfc).status;
}

uint64_t Importer::result(uint32_t width) const {
  if (width == 8) return words_[0];
  uint32_t half;
  std::memcpy(&half, words_.data(), sizeof(half));
  return half;
}

urma_cr_status_t Importer::try_write(uint64_t offset, uint64_t value) {
  words_[0] = value;
  urma_sge_t from = here(8), to = there(offset, 8);
  return end_of(write_request(queue, &from, &to));
}

urma_cr_status_t Importer::try_read(uint64_t offset) {
  urma_sge_t from = there(offset, 8), to = here(8);
  return end_of(read_request(queue, &to, &from));
}

urma_cr_status_t Importer::try_add(uint64_t offset, uint64_t operand) {
  urma_sge_t old = here(8), to = there(offset, 8);
  return end_of(add_request(queue, &old, &to, operand));
}

void Importer::expect_refused(urma_cr_status_t status) {
  EXPECT_EQ(try_write(0, 99), status);
  EXPECT_EQ(try_read(0), status);
  EXPECT_EQ(try_add(0, 99), status);
}

void Importer::write(uint64_t offset, uint64_t value) {
  EXPECT_EQ(try_write(offset, value), URMA_CR_SUCCESS);
}

void Importer::send_word(uint64_t value) {
  words_[0] = value;
  urma_sge_t from = here(8);
  EXPECT_EQ(end_of(send_request(queue, &from)), URMA_CR_SUCCESS);
}

uint64_t Importer::read(uint64_t offset) {
  EXPECT_EQ(try_read(offset), URMA_CR_SUCCESS);
  return words_[0];
}

uint64_t Importer::add(uint64_t offset, uint64_t operand, uint32_t width) {
  urma_sge_t old = here(width), to = there(offset, width);
  EXPECT_EQ(end_of(add_request(queue, &old, &to, operand)), URMA_CR_SUCCESS);
  return result(width);
}

uint64_t Importer::cas(uint64_t offset, uint64_t compare, uint64_t swap, uint32_t width) {
  urma_sge_t old = here(width), to = there(offset, width);
  EXPECT_EQ(end_of(cas_request(queue, &old, &to, compare, swap)), URMA_CR_SUCCESS);
  return result(width);
}

}  // namespace urma_test
