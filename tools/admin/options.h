// SPDX-License-Identifier: MIT
#ifndef TOOLS_ADMIN_OPTIONS_H_
#define TOOLS_ADMIN_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>

namespace admin {

// What the command line says apart from the command itself: the options, which may stand anywhere,
// and the words behind the command.
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

  std::string kind;              // of the objects asked for
  std::optional<uint64_t> id;    // of the one asked for
  std::optional<uint64_t> node;  // of the topology
  std::string what;              // what shall be set
  std::string value;             // to what
  std::string name;              // of an aggregated device, or a main EID
};

}  // namespace admin

#endif  // TOOLS_ADMIN_OPTIONS_H_
