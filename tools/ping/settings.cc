// SPDX-License-Identifier: MIT
#include "tools/ping/settings.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "tools/ping/place.h"
#include "urma_ext.h"

namespace ping {
namespace {

constexpr char kVersion[] = "0.0.1";
constexpr double kMaxSeconds = 1e9;

// The raw options, before validation.
struct Texts {
  std::string destination;
  std::string local;
  std::string count;
  std::string interval;
  std::string size;
  std::string deadline;
  std::string reply_timeout;
};

[[noreturn]] void refuse(const std::string& given, const std::string& allowed,
                         const std::string& example) {
  std::string line = given + ": " + allowed + "; for example: urma_ping " + example;
  // Keeps any input on one line.
  std::replace_if(
      line.begin(), line.end(), [](unsigned char c) { return std::iscntrl(c) != 0; }, ' ');
  throw WrongInput(line);
}

uint32_t number_of(const std::string& option, const std::string& text, uint32_t most,
                   const std::string& allowed, const std::string& example) {
  const std::optional<uint64_t> number = parse_number(text);
  if (!number || *number == 0 || *number > most) refuse(option + " " + text, allowed, example);
  return static_cast<uint32_t>(*number);
}

Clock::duration seconds_of(const std::string& option, const std::string& text,
                           const std::string& allowed) {
  double value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool good = error == std::errc() && end == text.data() + text.size() &&
                    std::isfinite(value) && value >= 0 && value <= kMaxSeconds;
  if (!good) refuse(option + " " + text, allowed, option + " 0.5 192.0.2.1");
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(value));
}

urma_eid_t eid_of(const std::string& given, const std::string& text) {
  const std::optional<urma_eid_t> eid = parse_eid(text);
  if (!eid) {
    refuse(given,
           "an EID is an IPv6 address, a dotted IPv4 address or a number of 32 bits, and not zero",
           "fe80::1");
  }
  return *eid;
}

void add_options(CLI::App* app, Texts* texts, Settings* settings) {
  const auto text = [app](const std::string& names, std::string* to, const std::string& value,
                          const std::string& help) {
    app->add_option(names, *to, help)
        ->type_name(value)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  };
  app->set_help_flag("-h,--help", "this text");
  app->set_version_flag("-V,--version", kVersion)->description("the version");
  app->add_option("destination", texts->destination,
                  "EID to ping: IPv6, dotted IPv4 or a number, not zero")
      ->type_name("EID");
  text("-c", &texts->count, "N", "stop after N packets; default: no end");
  text("-I", &texts->local, "EID", "local EID; default: the one most like the destination");
  text("-i", &texts->interval, "SEC", "seconds between a reply and the next packet; default: 1");
  text("-s", &texts->size, "BYTES", "bytes of data, 1 to 4096; default: 4");
  text("-w", &texts->deadline, "SEC", "stop after SEC seconds; default: 0, no end");
  text("-W", &texts->reply_timeout, "SEC", "seconds to wait for a reply; default: 1; 0: no limit");
  app->add_flag("-q", settings->quiet, "no line for each packet");
  app->add_flag("-v,--verbose", settings->verbose, "more lines");
  app->add_flag("--json", settings->json, "the summary as JSON, and nothing else");
  app->add_flag("--listen", settings->listen, "answer pings, on all EIDs or on that of -I");
}

// Options of a pinging side have no meaning for an answering one.
void check_listen(const CLI::App& app) {
  for (const char* option : {"-c", "-i", "-s", "-w", "-W", "destination"}) {
    if (app.count(option) == 0) continue;
    refuse(std::string("--listen with ") + option,
           "it answers until it is interrupted, and takes -I, -q, -v and --json", "--listen");
  }
}

void take_values(const CLI::App& app, const Texts& texts, Settings* settings) {
  if (!texts.local.empty() || app.count("-I") != 0) {
    settings->local = eid_of("-I " + texts.local, texts.local);
  }
  if (settings->json) {
    settings->quiet = true;
    settings->verbose = false;
  }
  if (settings->listen) return check_listen(app);
  if (app.count("destination") == 0) {
    refuse("no destination", "an EID to ping, or --listen", "-c 5 fe80::1");
  }
  settings->destination = eid_of("destination " + texts.destination, texts.destination);
  if (app.count("-c") != 0) {
    settings->count = number_of("-c", texts.count, UINT32_MAX, "a count of 1 to 4294967295 packets",
                                "-c 5 192.0.2.1");
  }
  if (app.count("-s") != 0) {
    settings->size =
        number_of("-s", texts.size, kMaxSize, "a size of 1 to 4096 bytes", "-s 64 192.0.2.1");
  }
  if (app.count("-i") != 0) {
    settings->interval = seconds_of("-i", texts.interval, "an interval of 0 or more seconds");
  }
  if (app.count("-w") != 0) {
    settings->deadline = seconds_of("-w", texts.deadline, "0 for no end, or seconds until the end");
  }
  if (app.count("-W") != 0) {
    settings->reply_timeout =
        seconds_of("-W", texts.reply_timeout, "0 for no limit, or seconds to wait for a reply");
  }
}

}  // namespace

std::variant<Settings, int> parse_settings(int argc, char** argv) {
  CLI::App app("Sends messages to a URMA responder, and measures the round trips.", "urma_ping");
  app.footer("Exit status: 0, 1 if no responder replied or the tool failed, 2 for wrong input.");
  Texts texts;
  Settings settings;
  add_options(&app, &texts, &settings);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    std::fputs(app.help().c_str(), stdout);
    return 0;
  } catch (const CLI::CallForVersion&) {
    std::printf("urma_ping version %s\nliburma %s\n", kVersion, urma_ext_version());
    return 0;
  } catch (const CLI::ParseError& error) {
    refuse(error.what(), "urma_ping --help lists the options", "-c 5 192.0.2.1");
  }
  take_values(app, texts, &settings);
  return settings;
}

}  // namespace ping
