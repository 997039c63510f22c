// SPDX-License-Identifier: MIT
//
// urma_ping: whether another EID can be reached, and how long a message takes there and back.

#include <cstdio>
#include <exception>
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

// The library, from start to end.
class Library {
 public:
  Library() {
    if (urma_init(nullptr) != URMA_SUCCESS) throw Failure("urma_init failed");
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  ~Library() { (void)urma_uninit(); }
};

// The place to ping from, where none is asked for: the pinged one itself, if it is on this machine.
Place pick_place(const std::vector<Place>& places, const urma_eid_t& destination) {
  for (const Place& place : places) {
    if (same(place.eid, destination)) return place;
  }
  return places.front();
}

int run(const Settings& settings) {
  Signals signals;
  Library library;
  std::vector<Place> places = list_places();
  if (settings.local) places = {find_place(places, *settings.local)};
  if (settings.listen) {
    // No port is opened to the network that nobody has asked for.
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
    if (const int* status = std::get_if<int>(&parsed)) return *status;
    return run(std::get<Settings>(parsed));
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
  // Whoever reads the lines through a pipe wants them when they are there.
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  return ping::guarded_main(argc, argv);
}
