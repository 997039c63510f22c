// SPDX-License-Identifier: MIT
#include "test/process/footprint.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <stdexcept>
#include <vector>

namespace urma_test {
namespace {

const auto kPageBytes = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
constexpr uint64_t kBlockBytes = 512;
constexpr char kMemfd[] = "/memfd:urma";

struct Mapping {
  uint64_t begin, end, offset, inode;
  std::string name;
};

std::vector<Mapping> read_mappings() {
  std::vector<Mapping> all;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    Mapping mapping = {};
    int name = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx %*s %lx %*s %lu %n", &mapping.begin, &mapping.end,
                    &mapping.offset, &mapping.inode, &name) >= 4) {
      mapping.name = line.substr(static_cast<size_t>(name));
      all.push_back(mapping);
    }
  }
  return all;
}

// The pages of a file present in this mapping, by offset.
void find_resident(const Mapping& mapping, std::set<uint64_t>* offsets) {
  std::vector<unsigned char> pages((mapping.end - mapping.begin) / kPageBytes);
  if (::mincore(reinterpret_cast<void*>(mapping.begin), mapping.end - mapping.begin,
                pages.data()) != 0) {
    return;  // unmapped in the meantime
  }
  for (size_t i = 0; i < pages.size(); ++i) {
    if ((pages[i] & 1) != 0) offsets->insert(mapping.offset + i * kPageBytes);
  }
}

std::map<uint64_t, uint64_t> find_shared() {
  std::map<uint64_t, std::set<uint64_t>> resident;
  for (const Mapping& mapping : read_mappings()) {
    if (mapping.name.starts_with(kMemfd)) find_resident(mapping, &resident[mapping.inode]);
  }
  std::map<uint64_t, uint64_t> shared;
  for (const auto& [inode, offsets] : resident) shared[inode] = offsets.size() * kPageBytes;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string name = std::filesystem::read_symlink(entry.path(), gone);
    struct stat status;
    if (!name.starts_with(kMemfd) || ::stat(entry.path().c_str(), &status) != 0) continue;
    const uint64_t bytes = static_cast<uint64_t>(status.st_blocks) * kBlockBytes;
    shared[status.st_ino] = std::max(shared[status.st_ino], bytes);
  }
  return shared;
}

uint64_t read_rollup(const std::string& wanted) {
  std::ifstream rollup("/proc/self/smaps_rollup");
  for (std::string line; std::getline(rollup, line);) {
    std::istringstream words(line);
    std::string key;
    uint64_t kib = 0;
    if (words >> key >> kib && key == wanted) return kib << 10;
  }
  throw std::runtime_error("no " + wanted + " in /proc/self/smaps_rollup");
}

}  // namespace

uint64_t Footprint::bytes() const {
  uint64_t sum = own_bytes;
  for (const auto& [inode, bytes] : shared) sum += bytes;
  return sum;
}

void Footprint::add(const Footprint& other) {
  own_bytes += other.own_bytes;
  resident_bytes += other.resident_bytes;
  for (const auto& [inode, bytes] : other.shared) shared[inode] = std::max(shared[inode], bytes);
}

// Pages of files, such as code, are shared: their Pss depends on the other processes.
Footprint take_footprint() {
  return {read_rollup("Pss_Anon:"), read_rollup("Anonymous:"), find_shared()};
}

uint64_t growth(const Footprint& before, const Footprint& after) {
  return after.bytes() > before.bytes() ? after.bytes() - before.bytes() : 0;
}

void send_footprint(Channel& channel, const Footprint& footprint) {
  channel.send(footprint.own_bytes);
  channel.send(footprint.resident_bytes);
  channel.send(footprint.shared.size());
  for (const auto& [inode, bytes] : footprint.shared) {
    channel.send(inode);
    channel.send(bytes);
  }
}

Footprint receive_footprint(Channel& channel) {
  Footprint footprint = {};
  footprint.own_bytes = channel.receive<uint64_t>();
  footprint.resident_bytes = channel.receive<uint64_t>();
  for (auto left = channel.receive<size_t>(); left > 0; --left) {
    const auto inode = channel.receive<uint64_t>();
    footprint.shared[inode] = channel.receive<uint64_t>();
  }
  return footprint;
}

size_t count_mappings() { return read_mappings().size(); }

size_t count_mappings_of(const void* address) {
  const std::vector<Mapping> all = read_mappings();
  const auto at = reinterpret_cast<uint64_t>(address);
  const auto found = std::find_if(all.begin(), all.end(), [at](const Mapping& mapping) {
    return mapping.begin <= at && at < mapping.end;
  });
  if (found == all.end()) return 0;
  return static_cast<size_t>(std::count_if(all.begin(), all.end(), [found](const Mapping& mapping) {
    return mapping.inode == found->inode;
  }));
}

size_t count_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(all), end(all)));
}

uint64_t bytes_without_huge_pages() {
  std::ifstream smaps("/proc/self/smaps");
  uint64_t area = 0;
  uint64_t sum = 0;
  for (std::string line; std::getline(smaps, line);) {
    uint64_t begin;
    uint64_t end;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &begin, &end) == 2) area = end - begin;
    if (line.starts_with("VmFlags:") && line.find(" nh") != std::string::npos) sum += area;
  }
  return sum;
}

}  // namespace urma_test
