// SPDX-License-Identifier: MIT
//
// urma_ping: whether another EID can be reached, and the round trip time of a message.

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

// The default place to ping from: the pinged one itself, if it is on this machine.
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
