// SPDX-License-Identifier: MIT
#include "urma/base/ip.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstring>
#include <iterator>

#include "third_party/fmt/format.h"

namespace urma {
namespace {

constexpr uint8_t kMappedPrefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
constexpr uint8_t kLoopback[URMA_EID_SIZE] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};

}  // namespace

bool is_zero(const Ip& ip) {
  return std::all_of(std::begin(ip), std::end(ip), [](uint8_t byte) { return byte == 0; });
}

bool is_ipv4(const Ip& ip) { return std::memcmp(ip, kMappedPrefix, sizeof(kMappedPrefix)) == 0; }

bool is_loopback(const Ip& ip) {
  if (is_ipv4(ip)) return ip[sizeof(kMappedPrefix)] == 127;
  return std::memcmp(ip, kLoopback, sizeof(kLoopback)) == 0;
}

bool is_link_local(const Ip& ip) {
  const uint8_t* ipv4 = ip + sizeof(kMappedPrefix);
  if (is_ipv4(ip)) return ipv4[0] == 169 && ipv4[1] == 254;
  return ip[0] == 0xfe && (ip[1] & 0xc0) == 0x80;
}

urma_eid_t mapped(const in_addr& ipv4) {
  urma_eid_t eid;
  std::memcpy(eid.raw, kMappedPrefix, sizeof(kMappedPrefix));
  std::memcpy(eid.raw + sizeof(kMappedPrefix), &ipv4, sizeof(ipv4));
  return eid;
}

std::string text_of(const Ip& ip) {
  char text[INET6_ADDRSTRLEN] = "";
  if (is_ipv4(ip)) {
    ::inet_ntop(AF_INET, ip + sizeof(kMappedPrefix), text, sizeof(text));
  } else {
    ::inet_ntop(AF_INET6, ip, text, sizeof(text));
  }
  return text;
}

std::string text_of(const Ip& ip, uint16_t port) {
  return is_ipv4(ip) ? urma::format("{}:{}", text_of(ip), port)
                     : urma::format("[{}]:{}", text_of(ip), port);
}

}  // namespace urma
