// SPDX-License-Identifier: MIT
#include "tools/admin/refused.h"

#include <algorithm>

#include "third_party/fmt/format.h"
#include "tools/admin/library.h"
#include "tools/admin/text.h"

namespace admin {
namespace {

[[noreturn]] void refuse(const std::string& why, const std::string& instead) {
  throw Failure(urma::format("{}; instead: {}", why, instead));
}

Report unchanged(const std::string& text) {
  return {{{"changed", false}, {"note", text}}, text + '\n'};
}

void need(bool given, const char* option) {
  if (!given) throw UsageError(urma::format("{} is missing", option));
}

// The entry of the EID table that the options name, or nullptr.
const urma_eid_info_t* entry_of(const Device& device, uint64_t index) {
  for (const auto& info : device.eids) {
    if (info.eid_index == index) return &info;
  }
  return nullptr;
}

uint64_t existing_index(const Device& device, const Options& options) {
  const uint64_t index = options.index.value_or(0);
  if (entry_of(device, index) != nullptr) return index;
  std::vector<std::string> indices;
  for (const auto& info : device.eids) indices.push_back(urma::format("{}", info.eid_index));
  throw Failure(urma::format("{} has no EID {}; it has: {}", device.name, index,
                             indices.empty() ? "none" : joined(indices, ", ")));
}

// Why the table cannot be changed.
[[noreturn]] void refuse_eids(const Device& device) {
  refuse(urma::format("the EIDs of {} are made once for the runtime directory, and the library has "
                      "no call that changes them",
                      device.name),
         urma::format("use one of those that it has: urma_admin show --dev {}", device.name));
}

[[noreturn]] void refuse_namespaces(const std::string& what) {
  refuse(
      urma::format("{} cannot be tied to a network namespace: all processes that share the runtime "
                   "directory have the same devices and EIDs",
                   what),
      "give the processes that shall reach each other the same URMA_RUNTIME_DIR, and others "
      "another one");
}

Report set_mode(const Device& device, uint64_t index, const std::string& mode) {
  if (mode == "dynamic") {
    refuse(urma::format("EID {} of {} is static: nothing in the kernel assigns EIDs here", index,
                        device.name),
           "leave it static");
  }
  return unchanged(urma::format("EID {} of {} is static already", index, device.name));
}

}  // namespace

Report eid_add(const Options& options) {
  need(!options.device.empty(), "--dev");
  need(!options.eid.empty(), "--eid");
  const Library library;
  const Device device = library.device(options.device);
  const uint64_t index = options.index.value_or(0);
  if (const auto* entry = entry_of(device, index); entry != nullptr) {
    throw Failure(
        urma::format("EID {} of {} is {} already", index, device.name, eid_text(entry->eid)));
  }
  refuse_eids(device);
}

Report eid_delete(const Options& options) {
  need(!options.device.empty(), "--dev");
  const Library library;
  const Device device = library.device(options.device);
  existing_index(device, options);
  refuse_eids(device);
}

Report eid_set(const Options& options) {
  const bool mode = options.what == "mode";
  if (mode && options.value != "static" && options.value != "dynamic") {
    throw UsageError(urma::format("mode '{}' is not static or dynamic", options.value));
  }
  const Library library;
  const Device device = library.device(options.device);
  const uint64_t index = existing_index(device, options);
  if (!mode) refuse_namespaces(urma::format("EID {} of {}", index, device.name));
  return set_mode(device, index, options.value);
}

Report set_eid_mode(const Options& options) {
  need(!options.device.empty(), "--dev");
  const Library library;
  const Device device = library.device(options.device);
  return set_mode(device, existing_index(device, options), options.eid_mode);
}

Report device_set(const Options& options) {
  if (options.what == "ns") {
    need(!options.ns.empty(), "NETNS");
    return set_device_ns(options);
  }
  need(options.sl.has_value(), "--sl");
  need(options.priority.has_value(), "--priority");
  const Library library;
  const Device device = library.device(options.device);
  const uint32_t sl = device.attr.dev_cap.priority_info[*options.priority].SL;
  if (sl == *options.sl) {
    return unchanged(urma::format("priority {} of {} has service level {} already",
                                  *options.priority, device.name, sl));
  }
  refuse(
      urma::format("priority {} of {} always has service level {}: nothing is sent over a "
                   "link that could tell them apart",
                   *options.priority, device.name, sl),
      urma::format("use the priority that has it: urma_admin show --dev {} --whole", device.name));
}

Report device_expose(const Options& options) { return set_device_ns(options); }

Report set_device_ns(const Options& options) {
  need(!options.device.empty(), "--dev");
  need(!options.ns.empty(), "--ns");
  const Library library;
  refuse_namespaces(library.device(options.device).name);
}

Report main_eid_change(const Options& /*options*/) {
  refuse("there is no table of main EIDs: each device stands for itself, not for a part of another",
         "use the EIDs that urma_admin show lists");
}

Report system_show(const Options& /*options*/) {
  return {{{"dev_sharing", "on"}, {"eid_sharing", "on"}}, "dev_sharing : on\neid_sharing : on\n"};
}

Report system_set(const Options& options) {
  if (options.value == "off") refuse_namespaces("what is shared");
  return unchanged(urma::format("{} is on already", options.what));
}

Report set_ns_mode(const Options& options) {
  need(!options.ns_mode.empty(), "--ns_mode");
  if (options.ns_mode == "0" || options.ns_mode == "exclusive") {
    refuse_namespaces("what is shared");
  }
  return unchanged("devices are shared already");
}

Report aggregate_add(const Options& options) {
  const Library library;
  std::vector<std::string> known;
  for (const auto& device : library.devices()) {
    if (device.name == options.name) throw Failure(urma::format("{} already exists", device.name));
    for (const auto& info : device.eids) {
      if (eid_text(info.eid) == options.eid) {
        refuse(
            "an aggregated device is another name of a device here, and a program takes it from "
            "its environment",
            urma::format("URMA_DEVICE_ALIAS={}={}", options.name, device.name));
      }
      known.push_back(eid_text(info.eid));
    }
  }
  throw Failure(urma::format("no device has the EID {}; there are: {}", options.eid,
                             known.empty() ? "none" : joined(known, ", ")));
}

Report aggregate_change(const Options& /*options*/) {
  refuse(
      "an aggregated device is another name of a device here, and lasts as long as a program has "
      "it in its environment",
      "set or clear URMA_DEVICE_ALIAS, which is name=device, for that program");
}

}  // namespace admin
