// SPDX-License-Identifier: MIT
#ifndef URMA_CORE_PROCESS_RUNTIME_DIR_H_
#define URMA_CORE_PROCESS_RUNTIME_DIR_H_

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "urma/base/fd.h"
#include "urma/base/settings.h"
#include "urma/core/process/peer_users.h"
#include "urma_types.h"

namespace urma::core {

inline constexpr uint32_t kMaxSlot = 65535;

struct RuntimeDir {
  Fd fd;
  std::string path;
};

// Opens the directory that the settings and the environment name, and makes it if it is missing.
// Throws Error if others than this user and the peers can access it.
RuntimeDir open_runtime_dir(const Settings& settings, const PeerUsers& peers);

// The EIDs of all processes that share the directory; made by the first caller. Throws Error if the
// table is damaged. temporary_name is a name that only the caller uses.
std::vector<urma_eid_t> load_eid_table(const RuntimeDir& dir, const std::string& temporary_name);

std::string slot_name(uint32_t slot);
std::optional<uint32_t> parse_slot_name(std::string_view name);
// Parses a plain decimal number of 1..max.
std::optional<uint32_t> parse_decimal(std::string_view text, uint32_t max);

// Removes files of dead processes, by one listing of the directory: those of these slots, and every
// reservation whose owner has ended. Returns the slots that are, or seem, in use.
std::set<uint32_t> sweep_slots(int dir, const std::set<uint32_t>& slots);
// The same for all slots.
void sweep_all(int dir);
// Removes the sockets of a slot and what else has its number; the caller holds the slot's lock.
void remove_entries(int dir, uint32_t slot);

uint64_t random_number();

}  // namespace urma::core

#endif  // URMA_CORE_PROCESS_RUNTIME_DIR_H_
