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
// A private range of IPv6: "urma" after its mark.
constexpr uint8_t kDirectoryPrefix[8] = {0xfd, 0x75, 0x72, 0x6d, 0x61};
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

bool is_of_directory(const Ip& ip) {
  return std::memcmp(ip, kDirectoryPrefix, sizeof(kDirectoryPrefix)) == 0;
}

urma_eid_t directory_eid(uint64_t number) {
  urma_eid_t eid;
  std::memcpy(eid.raw, kDirectoryPrefix, sizeof(kDirectoryPrefix));
  std::memcpy(eid.raw + sizeof(kDirectoryPrefix), &number, sizeof(number));
  return eid;
}

urma_eid_t mapped(const in_addr& ipv4) {
  urma_eid_t eid;
  std::memcpy(eid.raw, kMappedPrefix, sizeof(kMappedPrefix));
  std::memcpy(eid.raw + sizeof(kMappedPrefix), &ipv4, sizeof(ipv4));
  return eid;
}

urma_eid_t loopback(bool ipv4) {
  if (ipv4) return mapped({htonl(INADDR_LOOPBACK)});
  urma_eid_t eid;
  std::memcpy(eid.raw, kLoopback, sizeof(kLoopback));
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
