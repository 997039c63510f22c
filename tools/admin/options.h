// SPDX-License-Identifier: MIT
#ifndef TOOLS_ADMIN_OPTIONS_H_
#define TOOLS_ADMIN_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>

namespace admin {

// The command line without the command itself: the options, which may stand anywhere, and the
// arguments of the command.
struct Options {
  bool json = false;
  bool prometheus = false;
  bool all = false;
  bool brief = false;
  bool whole = false;

  std::string device;
  std::string eid;
  std::string eid_mode;
  std::string ns;
  std::string ns_mode;
  std::optional<uint64_t> index;
  std::optional<uint64_t> ue_index;
  std::optional<uint64_t> resource_type;
  std::optional<uint64_t> key;
  std::optional<uint64_t> key_ext;
  std::optional<uint64_t> key_count;
  std::optional<uint64_t> priority;
  std::optional<uint64_t> sl;

  std::optional<uint64_t> pid;
  std::optional<uint64_t> watch;  // seconds between two reports
  std::optional<uint64_t> count;  // of reports

  std::string kind;              // of the requested objects
  std::optional<uint64_t> id;    // of the requested one
  std::optional<uint64_t> node;  // of the topology
  std::string what;              // name of the setting to change
  std::string value;             // its new value
  std::string name;              // of an aggregated device, or a main EID
};

}  // namespace admin

#endif  // TOOLS_ADMIN_OPTIONS_H_
