/* SPDX-License-Identifier: MIT */

// Addresses: an EID and an id, as libfabric's callers write them.

#ifndef OFI_ADDRESS_H
#define OFI_ADDRESS_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "urma_types.h"

namespace urma_fi {

// The address of a passive endpoint. With id 0 the device chooses.
struct Address {
  urma_eid_t eid{};
  uint32_t id = 0;
};

bool same_eid(const urma_eid_t& a, const urma_eid_t& b);

// FI_SOCKADDR_IN6 and FI_SOCKADDR: the EID as the IPv6 address and the id as the port, which is
// what layers on libfabric expect; the upper 16 bits of the id as the flow label, since devices may
// choose larger ids. FI_ADDR_STR: urma://EID/ID.
bool is_format(uint32_t format);

// The bytes of `address` in `format`, a string with its ending zero.
std::vector<char> encode(uint32_t format, const Address& address);

// Reads the `size` bytes at `bytes`. False: not an address of this format.
bool decode(uint32_t format, const void* bytes, size_t size, Address* address);

// Reads urma://EID/ID, urma://EID or an EID. False: anything else.
bool parse(const std::string& text, Address* address);

// Reads the id of a service in decimal, 0 to 65535. False: anything else.
bool parse_service(const std::string& text, uint32_t* id);

std::string to_text(const Address& address);

}  // namespace urma_fi

#endif  // OFI_ADDRESS_H
