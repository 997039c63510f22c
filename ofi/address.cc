/* SPDX-License-Identifier: MIT */

#include "ofi/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <rdma/fabric.h>

#include <charconv>
#include <cstring>

namespace urma_fi {
namespace {

constexpr uint32_t kMaxService = 65535;
constexpr char kScheme[] = "urma://";

std::vector<char> encode_socket(const Address& address) {
  sockaddr_in6 socket{};
  socket.sin6_family = AF_INET6;
  socket.sin6_port = htons(static_cast<uint16_t>(address.id));
  socket.sin6_flowinfo = htonl(address.id >> 16);
  std::memcpy(&socket.sin6_addr, address.eid.raw, URMA_EID_SIZE);
  const char* bytes = reinterpret_cast<const char*>(&socket);
  return {bytes, bytes + sizeof(socket)};
}

bool decode_socket(const void* bytes, size_t size, Address* address) {
  // Addresses of other families may be shorter.
  sa_family_t family;
  if (size < sizeof(family)) return false;
  std::memcpy(&family, bytes, sizeof(family));
  sockaddr_in6 socket;
  if (family != AF_INET6 || size < sizeof(socket)) return false;
  std::memcpy(&socket, bytes, sizeof(socket));
  std::memcpy(address->eid.raw, &socket.sin6_addr, URMA_EID_SIZE);
  const uint32_t high = ntohl(socket.sin6_flowinfo);
  address->id = high << 16 | ntohs(socket.sin6_port);
  return high <= UINT16_MAX;
}

bool parse_number(const std::string& text, uint32_t* number) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, *number);
  return error == std::errc() && stop == end;
}

}  // namespace

bool same_eid(const urma_eid_t& a, const urma_eid_t& b) {
  return std::memcmp(a.raw, b.raw, URMA_EID_SIZE) == 0;
}

bool is_format(uint32_t format) {
  return format == FI_SOCKADDR || format == FI_SOCKADDR_IN6 || format == FI_ADDR_STR;
}

std::vector<char> encode(uint32_t format, const Address& address) {
  if (format != FI_ADDR_STR) return encode_socket(address);
  const std::string text = to_text(address);
  return {text.c_str(), text.c_str() + text.size() + 1};
}

bool decode(uint32_t format, const void* bytes, size_t size, Address* address) {
  if (bytes == nullptr) return false;
  if (format != FI_ADDR_STR) return decode_socket(bytes, size, address);
  const auto* text = static_cast<const char*>(bytes);
  return parse({text, strnlen(text, size)}, address);
}

bool parse_service(const std::string& text, uint32_t* id) {
  return parse_number(text, id) && *id <= kMaxService;
}

bool parse(const std::string& text, Address* address) {
  std::string eid = text;
  address->id = 0;
  if (eid.starts_with(kScheme)) {
    eid.erase(0, sizeof(kScheme) - 1);
    const size_t slash = eid.find('/');
    if (slash != std::string::npos) {
      if (!parse_number(eid.substr(slash + 1), &address->id)) return false;
      eid.erase(slash);
    }
  }
  return inet_pton(AF_INET6, eid.c_str(), address->eid.raw) == 1;
}

std::string to_text(const Address& address) {
  char eid[INET6_ADDRSTRLEN];
  inet_ntop(AF_INET6, address.eid.raw, eid, sizeof(eid));
  return kScheme + std::string(eid) + "/" + std::to_string(address.id);
}

}  // namespace urma_fi
