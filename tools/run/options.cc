// SPDX-License-Identifier: MIT
#include "tools/run/options.h"

#include <getopt.h>

#include <cstdio>
#include <cstring>

#include "tools/run/failure.h"
#include "urma_ext.h"

namespace run {
namespace {

constexpr char kDevice[] = "urma_shm0";

constexpr char kUsage[] =
    R"(Usage: urma_run [OPTION...] PROGRAM [ARGUMENT...]
Shows a program and its children the devices of the library in /sys/class/ubcore and /dev/uburma.

  --name NAME[=DEVICE]  a further name of a device, default urma_shm0; may be repeated
  --eid EID             an EID of urma_shm0; may be repeated
  --isolated            a runtime directory for this run alone, removed at its end
  --fault SPEC          faults to inject (URMA_FAULT)
  --way WAY             mount, userns or preload; default: the first of them that works
  -v, --verbose         say on stderr which way was used, and why others were not
  -h, --help            this text
  -V, --version         the version

Exit status: that of PROGRAM; 125 if urma_run fails, 126 if PROGRAM cannot be run, 127 if it is not
found.
)";

enum Long { kName = 256, kEid, kIsolated, kFault, kWay };

constexpr option kOptions[] = {
    {"name", required_argument, nullptr, kName},
    {"eid", required_argument, nullptr, kEid},
    {"isolated", no_argument, nullptr, kIsolated},
    {"fault", required_argument, nullptr, kFault},
    {"way", required_argument, nullptr, kWay},
    {"verbose", no_argument, nullptr, 'v'},
    {"help", no_argument, nullptr, 'h'},
    {"version", no_argument, nullptr, 'V'},
    {nullptr, 0, nullptr, 0},
};

std::string parse_name(const std::string& text) {
  const size_t equals = text.find('=');
  const std::string name = text.substr(0, equals);
  const std::string device = equals == std::string::npos ? kDevice : text.substr(equals + 1);
  for (const std::string& part : {name, device}) {
    if (part.empty() || part.size() >= URMA_MAX_DEV_NAME ||
        part.find_first_of(",=/ ") != std::string::npos || part[0] == '.') {
      throw Failure("--name " + text + ": NAME or NAME=DEVICE, each of 1 to " +
                    std::to_string(URMA_MAX_DEV_NAME - 1) +
                    " characters; for example: --name bonding_dev_0");
    }
  }
  return name + "=" + device;
}

void add_eid(const char* text, std::vector<urma_eid_t>* eids) {
  urma_eid_t eid{};
  constexpr urma_eid_t kZero{};
  if (urma_str_to_eid(text, &eid) != 0 || std::memcmp(&eid, &kZero, sizeof eid) == 0) {
    throw Failure(std::string("--eid ") + text +
                  ": an EID is an IPv6 address, a dotted IPv4 address or a number of 32 bits, and "
                  "not zero; for example: --eid fd00::1");
  }
  for (const urma_eid_t& other : *eids) {
    if (std::memcmp(&eid, &other, sizeof eid) == 0) {
      throw Failure(std::string("--eid ") + text + " is given twice; give each EID once");
    }
  }
  eids->push_back(eid);
}

Way parse_way(const std::string& text) {
  for (const Way way : kWays) {
    if (text == name_of(way)) return way;
  }
  throw Failure("--way " + text + ": mount, userns or preload; for example: --way preload");
}

}  // namespace

std::variant<Options, int> parse_options(int argc, char** argv) {
  Options options;
  opterr = 0;
  // The plus stops at the first word that is not an option: what follows is the program's.
  for (int c = 0; (c = ::getopt_long(argc, argv, "+vhV", kOptions, nullptr)) != -1;) {
    switch (c) {
      case kName:
        options.names.push_back(parse_name(optarg));
        break;
      case kEid:
        add_eid(optarg, &options.eids);
        break;
      case kIsolated:
        options.isolated = true;
        break;
      case kFault:
        options.faults = optarg;
        break;
      case kWay:
        options.way = parse_way(optarg);
        break;
      case 'v':
        options.verbose = true;
        break;
      case 'h':
        std::fputs(kUsage, stdout);
        return 0;
      case 'V':
        std::printf("urma_run %s\n", urma_ext_version());
        return 0;
      default:
        throw Failure(std::string(argv[optind - 1]) +
                      ": no such option, or its value is missing; urma_run --help lists them");
    }
  }
  if (optind == argc) throw Failure("no program given; for example: urma_run ls /sys/class/ubcore");
  options.program = argv + optind;
  return options;
}

}  // namespace run
