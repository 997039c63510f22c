// SPDX-License-Identifier: MIT
#include "tools/ping/place.h"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <memory>

namespace ping {
namespace {

urma_eid_t number_eid(uint32_t number) {
  urma_eid_t eid;
  urma_u32_to_eid(number, &eid);
  return eid;
}

bool is_zero(const urma_eid_t& eid) { return same(eid, number_eid(0)) || same(eid, urma_eid_t{}); }

void add_places(urma_device_t* device, std::vector<Place>* places) {
  uint32_t count = 0;
  const std::unique_ptr<urma_eid_info_t, decltype(&urma_free_eid_list)> list(
      urma_get_eid_list(device, &count), urma_free_eid_list);
  for (uint32_t i = 0; list != nullptr && i < count; ++i) {
    const urma_eid_info_t& info = list.get()[i];
    const bool known = std::any_of(places->begin(), places->end(),
                                   [&](const Place& place) { return same(place.eid, info.eid); });
    if (!known) places->push_back({device, info.eid_index, info.eid});
  }
}

}  // namespace

std::optional<uint64_t> parse_number(const std::string& text) {
  const bool hex = text.rfind("0x", 0) == 0 || text.rfind("0X", 0) == 0;
  const int base = hex ? 16 : text.size() > 1 && text[0] == '0' ? 8 : 10;
  const char* end = text.data() + text.size();
  uint64_t number = 0;
  const auto [rest, error] = std::from_chars(text.data() + (hex ? 2 : 0), end, number, base);
  if (error != std::errc() || rest != end) return std::nullopt;
  return number;
}

// urma_str_to_eid logs what it cannot read, and rejects numbers of less than 3 characters.
std::optional<urma_eid_t> parse_eid(const std::string& text) {
  urma_eid_t eid = {};
  in_addr ipv4;
  if (::inet_pton(AF_INET, text.c_str(), &ipv4) == 1) {
    eid = number_eid(ntohl(ipv4.s_addr));
  } else if (const auto number = parse_number(text); number && *number <= UINT32_MAX) {
    eid = number_eid(static_cast<uint32_t>(*number));
  } else if (::inet_pton(AF_INET6, text.c_str(), eid.raw) != 1) {
    return std::nullopt;
  }
  if (is_zero(eid)) return std::nullopt;
  return eid;
}

std::string to_text(const urma_eid_t& eid) {
  char text[URMA_EID_STR_LEN + 1];
  std::snprintf(text, sizeof(text), EID_FMT, EID_ARGS(eid));
  return text;
}

bool same(const urma_eid_t& a, const urma_eid_t& b) {
  return std::memcmp(a.raw, b.raw, sizeof(a.raw)) == 0;
}

std::vector<Place> list_places() {
  int count = 0;
  const std::unique_ptr<urma_device_t*[], decltype(&urma_free_device_list)> devices(
      urma_get_device_list(&count), urma_free_device_list);
  std::vector<Place> places;
  for (int i = 0; devices != nullptr && i < count; ++i) add_places(devices[i], &places);
  if (places.empty()) throw Failure("no device of this machine has an EID");
  return places;
}

Place find_place(const std::vector<Place>& places, const urma_eid_t& eid) {
  std::string known;
  for (const Place& place : places) {
    if (same(place.eid, eid)) return place;
    known += (known.empty() ? "" : ", ") + to_text(place.eid) + " of " + place.device->name;
  }
  throw WrongInput("-I " + to_text(eid) + ": no device has this EID; there are " + known +
                   "; for example: urma_ping -I " + to_text(places.front().eid) + " 192.0.2.1");
}

}  // namespace ping
