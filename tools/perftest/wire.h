// SPDX-License-Identifier: MIT
//
// The first data exchanged: UMDK's configuration, 360 bytes of a struct in the x86-64 layout, byte
// order included. Bytes 260 to 271 hold descriptors and a pointer of UMDK's process, which its peer
// ignores; this tool writes a mark there, by which it recognizes itself, and then the two swap an
// Extension.
#ifndef TOOLS_PERFTEST_WIRE_H_
#define TOOLS_PERFTEST_WIRE_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "tools/perftest/config.h"
#include "tools/perftest/exchange.h"

namespace perftest {

constexpr size_t kBlockSize = 360;
using Block = std::array<uint8_t, kBlockSize>;

// No descriptor has this number, so blocks of UMDK's tool never contain it there.
constexpr uint32_t kMark = 0x6d727501;
constexpr uint32_t kExtensionVersion = 1;

// Where a field lies in the block.
struct Field {
  const char* name;  // as UMDK's tool calls it
  uint16_t offset;
  uint16_t size;       // 1, 2, 4 or 8; 64 for the device's name
  const char* option;  // not NULL: both sides must agree on the field; the option that sets it
  uint64_t (*value)(const Config& config);  // NULL: not a number, or not in this tool
};

const std::vector<Field>& fields();

Block encode(const Config& config);

// The value of the field called `name`, which is not dev_name.
uint64_t decode(const Block& block, const std::string& name);

// Further settings that two instances of this tool must agree on. Sent as is; 64 bytes.
struct Extension {
  uint32_t size = 64;  // of this side's version; a later one may have more
  uint32_t verify = 0;
  uint64_t warmup = 0;
  uint32_t bidirectional = 0;
  uint32_t notify = 0;
  uint32_t min_size = 0;
  uint32_t max_size = 0;
  uint32_t ctp = 0;
  uint32_t own_warmup = 0;  // warmup was given
  uint32_t says_end = 1;    // see Session::says_end; 0 in 0.2.0
  uint32_t reserved[5] = {};
};
static_assert(sizeof(Extension) == 64);

// Whether the block has the mark of this tool.
bool is_extended(const Block& block);

// The lines "Config inconsistent[...]" for differences, with both values; empty if there are none.
std::vector<std::string> compare(const Config& config, const Block& mine, const Block& peer);
std::vector<std::string> compare(const Extension& mine, const Extension& peer);

// Step 1 of the exchange, with each peer. If they disagree, both sides throw RunError with all
// differences, one per line.
void negotiate(const Config& config, Exchange& exchange);

}  // namespace perftest

#endif  // TOOLS_PERFTEST_WIRE_H_
