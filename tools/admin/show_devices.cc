// SPDX-License-Identifier: MIT
#include "tools/admin/show_devices.h"

#include <algorithm>
#include <cstring>

#include "third_party/fmt/format.h"
#include "tools/admin/device_fields.h"
#include "tools/admin/library.h"
#include "tools/admin/text.h"
#include "urma_types_str.h"

namespace admin {
namespace {

constexpr size_t kFieldWidth = 27;
const std::string kBlockEnd(87, '>');

// An aggregated device works while one member does, so it has no state of its own.
std::string link_of(const Device& device) {
  if (device.aggregated()) return "ACTIVE";
  return urma_port_state_to_string(device.attr.port_attr[0].state);
}

// An aggregated device has the GUID of its member, and an EID of its own.
bool is_member(const Device& device, const Device& aggregated) {
  return !device.aggregated() && std::memcmp(device.attr.guid.raw, aggregated.attr.guid.raw,
                                             sizeof device.attr.guid.raw) == 0;
}

// The devices that the options select. Programs use an aggregated one in place of its members.
std::vector<Device> asked_devices(const Library& library, const Options& options) {
  if (!options.device.empty()) return {library.device(options.device)};
  auto devices = library.devices();
  if (options.all) return devices;
  std::vector<Device> shown;
  for (const auto& device : devices) {
    const bool hidden = std::any_of(devices.begin(), devices.end(), [&](const Device& other) {
      return other.aggregated() && is_member(device, other);
    });
    if (!hidden) shown.push_back(device);
  }
  return shown;
}

// The members of an aggregated device.
std::vector<std::string> members_of(const Library& library, const Device& device) {
  std::vector<std::string> names;
  for (const auto& other : library.devices()) {
    if (is_member(other, device)) names.push_back(other.name);
  }
  return names;
}

Json brief_json(const Device& device, const std::vector<std::string>& members) {
  Json eids = Json::array();
  for (const auto& info : device.eids) {
    eids.push_back({{"index", info.eid_index}, {"eid", eid_text(info.eid)}});
  }
  Json json = {{"name", device.name},
               {"tp_type", urma_tp_type_to_string(device.handle->type)},
               {"link", link_of(device)},
               {"eids", eids}};
  if (device.aggregated()) json["sub_udma_devs"] = members;
  return json;
}

// One row for each EID. Scripts cut these lines at fixed columns.
std::string brief_rows(const Device& device, size_t number, const std::string& last_column) {
  const auto row = [&](const std::string& eid) {
    return urma::format("{:<3}  {:<16}    {:<8}    {}    {:<8}{}\n", number, device.name,
                        urma_tp_type_to_string(device.handle->type), eid, link_of(device),
                        last_column);
  };
  if (device.eids.empty()) return row(std::string(std::strlen("eid0 ") + URMA_EID_STR_LEN, ' '));
  std::string text;
  for (const auto& info : device.eids) {
    text += row(urma::format("eid{} {}", info.eid_index, eid_text(info.eid)));
  }
  return text;
}

std::string brief_header(bool with_members) {
  std::string names = urma::format("{:<3}  {:<16}    {:<8}    {:<44}    {:<8}", "num", "ubep_dev",
                                   "tp_type", "eid", "link");
  std::string dashes =
      urma::format("{:-<3}  {:-<16}    {:-<8}    {:-<44}    {:-<8}", "", "", "", "", "");
  if (with_members) {
    names += "  sub_udma_devs";
    dashes += "  -------------";
  }
  names.erase(names.find_last_not_of(' ') + 1);
  return names + '\n' + dashes + '\n';
}

Report show_brief(const Library& library, const std::vector<Device>& devices, bool one) {
  Report report{{{"devices", Json::array()}}, ""};
  const bool with_members = one && devices.front().aggregated();
  report.text = brief_header(with_members);
  for (size_t i = 0; i < devices.size(); ++i) {
    std::vector<std::string> members;
    if (devices[i].aggregated()) members = members_of(library, devices[i]);
    report.text += brief_rows(devices[i], i, with_members ? "  " + joined(members, ",") : "");
    report.json["devices"].push_back(brief_json(devices[i], members));
  }
  return report;
}

Report show_whole(const std::vector<Device>& devices) {
  Report report{{{"devices", Json::array()}}, ""};
  for (const auto& device : devices) {
    const auto fields = fields_of(device);
    for (const auto& field : fields) {
      report.text += urma::format("{:<{}}: {}", field.name, kFieldWidth, field.text);
      report.text.erase(report.text.find_last_not_of(' ') + 1);
      report.text += '\n';
    }
    report.text += priority_table(device) + kBlockEnd + '\n';
    report.json["devices"].push_back(whole_json(device));
  }
  return report;
}

}  // namespace

Report show_devices(const Options& options) {
  const Library library;
  const auto devices = asked_devices(library, options);
  if (options.whole) return show_whole(devices);
  return show_brief(library, devices, !options.device.empty());
}

Report show_topology(const Options& options) {
  const Library library;
  if (options.node.value_or(0) != 0) {
    throw Failure(urma::format("no node {}; there is: 0, this machine", *options.node));
  }
  Report report{{{"nodes", Json::array()}}, "node 0 (this machine)\n"};
  Json devices = Json::array();
  for (const auto& device : library.devices()) {
    devices.push_back(brief_json(device, members_of(library, device)));
    report.text += urma::format("  {}: reaches itself, link {}\n", device.name, link_of(device));
  }
  report.json["nodes"].push_back(
      {{"node", 0}, {"devices", devices}, {"neighbours", Json::array()}});
  return report;
}

}  // namespace admin
