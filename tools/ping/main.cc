// SPDX-License-Identifier: MIT
//
// urma_ping: whether another EID can be reached, and the round trip time of a message.

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <iterator>
#include <string>
#include <string_view>

#include "tools/ping/pinger.h"
#include "tools/ping/place.h"
#include "tools/ping/responder.h"
#include "tools/ping/settings.h"
#include "tools/ping/signals.h"
#include "urma_api.h"

namespace ping {
namespace {

// The library, running while this lives.
class Library {
 public:
  Library() {
    if (urma_init(nullptr) != URMA_SUCCESS) throw Failure("urma_init failed");
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  ~Library() { (void)urma_uninit(); }
};

// EIDs of runtime directories begin so: names, which no network knows.
bool is_of_directory(const urma_eid_t& eid) { return std::memcmp(eid.raw, "\xfdurma", 5) == 0; }

// The bits that both begin with; -1 if one cannot reach the other.
int likeness(const urma_eid_t& a, const urma_eid_t& b) {
  if (is_of_directory(a) != is_of_directory(b)) return -1;
  const auto [of_a, of_b] = std::ranges::mismatch(a.raw, b.raw);
  const auto same_bytes = static_cast<int>(of_a - std::begin(a.raw));
  if (of_a == std::end(a.raw)) return 8 * same_bytes;
  return 8 * same_bytes + std::countl_zero(static_cast<uint8_t>(*of_a ^ *of_b));
}

// The default place to ping from: the pinged one itself, if it is on this machine, else the first
// one that is most like it. EIDs of a device that reaches that one begin alike.
Place pick_place(const std::vector<Place>& places, const urma_eid_t& destination) {
  return *std::ranges::max_element(
      places, {}, [&](const Place& place) { return likeness(place.eid, destination); });
}

int run(const Settings& settings) {
  Signals signals;
  Library library;
  std::vector<Place> places = list_places();
  if (settings.local) places = {find_place(places, *settings.local)};
  if (settings.listen) {
    // Opens no port to the network without a request.
    if (!settings.local) {
      std::erase_if(places, [](const Place& place) {
        return std::string_view(place.device->name).starts_with("urma_net");
      });
    }
    return listen(settings, places, &signals);
  }
  return Pinger(settings, pick_place(places, settings.destination), &signals).run();
}

int guarded_main(int argc, char** argv) {
  try {
    const auto parsed = parse_settings(argc, argv);
    const int* known = std::get_if<int>(&parsed);
    const int status = known != nullptr ? *known : run(std::get<Settings>(parsed));
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
      throw Failure("cannot write to stdout");
    }
    return status;
  } catch (const WrongInput& error) {
    std::fprintf(stderr, "urma_ping: %s\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "urma_ping: %s\n", error.what());
    return 1;
  }
}

}  // namespace
}  // namespace ping

int main(int argc, char** argv) {
  // Line buffered: readers of a pipe want each line at once.
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  return ping::guarded_main(argc, argv);
}
