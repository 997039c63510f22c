// SPDX-License-Identifier: MIT
//
// IP addresses as EIDs have them: IPv6, or IPv4 mapped into it, ::ffff:a.b.c.d.
#ifndef URMA_BASE_IP_H_
#define URMA_BASE_IP_H_

#include <netinet/in.h>

#include <cstdint>
#include <string>

#include "urma_types.h"

namespace urma {

using Ip = uint8_t[URMA_EID_SIZE];

bool is_zero(const Ip& ip);
bool is_ipv4(const Ip& ip);
// Of this machine only.
bool is_loopback(const Ip& ip);
// Valid on one link only, which an EID does not name.
bool is_link_local(const Ip& ip);
// Of the range from which runtime directories take EIDs: names, which nothing can be sent to.
bool is_of_directory(const Ip& ip);
// An address of that range with this number.
urma_eid_t directory_eid(uint64_t number);
urma_eid_t mapped(const in_addr& ipv4);
urma_eid_t loopback(bool ipv4);  // 127.0.0.1, else ::1
// "10.0.0.1", "fe80::1"; with a port "10.0.0.1:4000", "[fe80::1]:4000".
std::string text_of(const Ip& ip);
std::string text_of(const Ip& ip, uint16_t port);

inline bool is_ipv4(const urma_eid_t& eid) { return is_ipv4(eid.raw); }
inline bool is_loopback(const urma_eid_t& eid) { return is_loopback(eid.raw); }
inline bool is_link_local(const urma_eid_t& eid) { return is_link_local(eid.raw); }
inline bool is_of_directory(const urma_eid_t& eid) { return is_of_directory(eid.raw); }
inline std::string text_of(const urma_eid_t& eid) { return text_of(eid.raw); }

}  // namespace urma

#endif  // URMA_BASE_IP_H_
