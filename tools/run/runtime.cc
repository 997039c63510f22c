// SPDX-License-Identifier: MIT
#include "tools/run/runtime.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "tools/run/failure.h"
#include "tools/run/library.h"
#include "urma_ext.h"

namespace run {
namespace {

// The library rejects shorter tables.
constexpr size_t kFewestEids = 2;

std::string text_of(const urma_eid_t& eid) {
  char text[INET6_ADDRSTRLEN];
  return ::inet_ntop(AF_INET6, eid.raw, text, sizeof text);
}

std::string list_of(const std::vector<urma_eid_t>& eids) {
  std::string text;
  for (const urma_eid_t& eid : eids) text += (text.empty() ? "" : ", ") + text_of(eid);
  return text;
}

bool same(const urma_eid_t& a, const urma_eid_t& b) { return std::memcmp(&a, &b, sizeof a) == 0; }

// The address after this one. After the last comes 1, since an EID is not zero.
urma_eid_t next_of(urma_eid_t eid) {
  size_t i = sizeof eid.raw;
  while (i > 0 && ++eid.raw[i - 1] == 0) --i;
  if (i == 0) eid.raw[sizeof eid.raw - 1] = 1;
  return eid;
}

// One line for each EID; a table that is too short is extended by counting up.
std::string table_of(std::vector<urma_eid_t> eids) {
  while (eids.size() < kFewestEids) eids.push_back(next_of(eids.back()));
  std::string text;
  for (const urma_eid_t& eid : eids) text += text_of(eid) + "\n";
  return text;
}

// Of the library; longer ones are cut.
std::string reported_value_of(const char* name) {
  uint32_t count = 0;
  (void)urma_ext_query_settings(0, nullptr, &count);
  std::vector<urma_ext_setting_t> settings(count);
  if (urma_ext_query_settings(0, settings.data(), &count) != URMA_SUCCESS) {
    throw Failure("the library does not report its settings");
  }
  for (const urma_ext_setting_t& setting : settings) {
    if (std::strcmp(setting.name, name) == 0) return setting.value;
  }
  throw Failure(std::string("the library does not report ") + name);
}

}  // namespace

std::string make_private_directory() {
  const char* own = std::getenv("XDG_RUNTIME_DIR");
  for (const std::string parent : {own == nullptr ? "/run" : own, "/run", "/tmp"}) {
    std::string path = parent + "/urma-run-XXXXXX";
    if (parent[0] != '/' || ::mkdtemp(path.data()) == nullptr) continue;
    ::setenv("URMA_RUNTIME_DIR", path.c_str(), 1);
    return path;
  }
  check(false, "making a directory in /run or /tmp for --isolated");
  return "";
}

void offer_eids(const std::vector<urma_eid_t>& eids) {
  if (eids.empty()) return;
  const std::string directory = value_of("URMA_RUNTIME_DIR");
  if (directory.empty()) return;
  ::mkdir(directory.c_str(), 0700);
  const std::string place = directory + "/eids";
  std::string made = place + "-XXXXXX";
  const int fd = ::mkostemp(made.data(), O_CLOEXEC);
  check(fd >= 0, "making " + made);
  const std::string text = table_of(eids);
  const bool written = ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  ::close(fd);
  // Appears complete at once; an existing table stays.
  const bool done = written && (::link(made.c_str(), place.c_str()) == 0 || errno == EEXIST);
  const int code = errno;
  ::unlink(made.c_str());
  errno = code;
  check(done, "writing " + place);
}

void expect_eids(const std::vector<urma_eid_t>& eids) {
  if (eids.empty()) return;
  const std::vector<urma_eid_t> there = eids_of(urma_get_device_by_name(device_to_extend()));
  bool equal = there.size() >= eids.size();
  for (size_t i = 0; equal && i < eids.size(); ++i) equal = same(eids[i], there[i]);
  if (equal) return;
  if (there.empty()) {
    throw Failure("--eid " + list_of(eids) + ": the device has no EIDs; the lines before say why");
  }
  throw Failure(
      "--eid " + list_of(eids) + ": " + runtime_directory() + " has the EIDs " + list_of(there) +
      ", which others may use; add --isolated, or set URMA_RUNTIME_DIR to a new directory");
}

std::string value_of(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : reported_value_of(name);
}

std::string runtime_directory() {
  const std::string directory = reported_value_of("URMA_RUNTIME_DIR");
  std::error_code error;
  const auto path = std::filesystem::canonical(directory, error);
  if (!error) return path;
  throw Failure("the runtime directory \"" + directory + "\" is not found: " + error.message());
}

}  // namespace run
