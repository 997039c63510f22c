// SPDX-License-Identifier: MIT
//
// EIDs as people write them, and their places on this machine.
#ifndef TOOLS_PING_PLACE_H_
#define TOOLS_PING_PLACE_H_

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "urma_api.h"

namespace ping {

// Invalid options or values.
class WrongInput : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A failure at run time.
class Failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Reads a number like strtoul with base 0: decimal, hexadecimal or octal. Nothing if there is other
// text.
std::optional<uint64_t> parse_number(const std::string& text);

// Reads an EID: an IPv6 address, a dotted IPv4 address or a number of 32 bits. Nothing for other
// text, or zero.
std::optional<urma_eid_t> parse_eid(const std::string& text);
std::string to_text(const urma_eid_t& eid);
bool same(const urma_eid_t& a, const urma_eid_t& b);

// An entry of the EID table of a device.
struct Place {
  urma_device_t* device;
  uint32_t eid_index;
  urma_eid_t eid;
};

// All places of this machine, each EID once. The library must be started.
std::vector<Place> list_places();

// The place with this EID. Throws WrongInput, with the existing EIDs.
Place find_place(const std::vector<Place>& places, const urma_eid_t& eid);

}  // namespace ping

#endif  // TOOLS_PING_PLACE_H_
