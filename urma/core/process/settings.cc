// SPDX-License-Identifier: MIT
#include "urma/core/process/settings.h"

#include <sys/auxv.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string_view>

#include "urma/base/error.h"
#include "urma/base/fault_plan.h"
#include "urma/base/text.h"
#include "urma/core/process/config_file.h"
#include "urma/core/process/peer_users.h"

namespace urma {
namespace {

constexpr SettingRow kRows[] = {
    {"URMA_LOG_LEVEL", SettingType::kChoice, "info", "fatal|error|warning|info|debug",
     "the least urgent level that is logged"},
    {"URMA_LOG_SINK", SettingType::kChoice, "stderr", "stderr|syslog|off",
     "where lines go while no callback is registered; stderr gets warnings and worse, and all "
     "lines with URMA_LOG_LEVEL=debug"},
    {"URMA_LOG_SEPARATOR", SettingType::kString, "|", "",
     "at most 7 characters of |,;:-/.~# for the line that ends a log callback"},
    {"URMA_RUNTIME_DIR", SettingType::kString, "", "",
     "directory through which processes find each other; not set: $XDG_RUNTIME_DIR/urma, else "
     "/run/urma-UID, else /tmp/urma-UID"},
    {"URMA_SHM_PEERS", SettingType::kString, "", "",
     "other users whose processes may be peers, by name or number, separated by commas, or * for "
     "all; they need the same runtime directory: see urma_shm(7)"},
    {"URMA_PROVIDER_PATH", SettingType::kString, "", "",
     "directories with provider modules, separated by colons, searched before the library's own"},
    {"URMA_SYSFS_ROOT", SettingType::kString, "/sys/class", "",
     "where the device classes ubcore and uburma are looked for"},
    {"URMA_DEVICE_ALIAS", SettingType::kString, "", "",
     "further names of devices, as name=device,name2=device2, besides bonding_dev_0 for urma_shm0, "
     "which - removes; a device whose name begins with bonding_dev answers the commands of "
     "urma_ubagg.h"},
    {"URMA_BOND", SettingType::kChoice, "none", "none|net0",
     "networks beside shared memory of bonding_dev_0; net0: that of the tcp provider, so that it "
     "is urma_bond0 and not urma_shm0: see urma_bonding(7)"},
    {"URMA_BUSY_POLL_US", SettingType::kNumber, "20", "0-1000",
     "microseconds that a thread which waits for events looks for them itself before it sleeps, "
     "while such looks find some; 0: never"},
    {"URMA_ENABLE_ORCH", SettingType::kBool, "0", "", "accepted, without effect"},
    {"URMA_FAULT", SettingType::kString, "", "",
     "faults to inject, such as seed=1;rnr:p=10;delay:ms=5,every=100: see urma_faults(7)"},
    {"URMA_TRACE", SettingType::kString, "", "",
     "file for a timeline of work requests, in the format of Chrome and Perfetto; %p stands for "
     "the process id: see urma_tracing(7)"},
    {"URMA_SHM_RING_SIZE", SettingType::kNumber, "4096", "4096-1048576",
     "bytes of a message ring of the shm provider, rounded down to a power of two"},
    {"URMA_SHM_INPLACE", SettingType::kBool, "1", "",
     "whether private memory is moved into shared memory once a peer uses it enough"},
    {"URMA_SHM_COPY", SettingType::kChoice, "kernel", "kernel|staged",
     "who copies what is not mapped: the importer through the kernel, if that permits it, or the "
     "owner after its own checks"},
    {"URMA_SHM_TIMEOUT_MS", SettingType::kNumber, "3000", "100-600000",
     "milliseconds that a living peer on this machine, for instance one stopped by a debugger, may "
     "be silent before its requests end"},
    {"URMA_ROCM_CPU", SettingType::kBool, "0", "",
     "whether the CPU agents of the HSA runtime are devices, urma_hsa0 and so on"},
    {"URMA_ROCM_LIBRARY", SettingType::kString, "", "",
     "the HSA runtime to open; not set: libhsa-runtime64.so.1, if there is /dev/kfd"},
    {"URMA_ROCM_TIMEOUT_MS", SettingType::kNumber, "3000", "10-600000",
     "milliseconds that attaching a peer's GPU memory may take"},
    {"URMA_ROCM_IPC", SettingType::kChoice, "auto", "auto|on|off",
     "whether memory of HSA agents is shared with other processes; auto: if there is a GPU"},
    {"URMA_ROCM_CPU_COPY", SettingType::kNumber, "16384", "0-1073741824",
     "bytes up to which the CPU copies memory of HSA agents that it can reach"},
    {"URMA_VERBS_TYPE", SettingType::kChoice, "ub", "ub|ib",
     "transport type of the verbs provider's devices: ub, so that every program accepts them, or "
     "ib, their real type"},
    {"URMA_VERBS_TIMEOUT_MS", SettingType::kNumber, "1000", "100-600000",
     "milliseconds that a peer of the verbs provider may be silent before it counts as gone"},
    {"URMA_VERBS_MAX_CONN", SettingType::kNumber, "1024", "1-65536",
     "connections that a verbs context sends over; beyond that, the least recently used give way"},
    {"URMA_TCP_DEVICES", SettingType::kString, "", "",
     "interfaces or addresses of the tcp provider's device, separated by commas, in the order of "
     "its EIDs; none: no such device; not set: all interfaces that are up"},
    {"URMA_TCP_PORT", SettingType::kString, "", "",
     "ports that processes listen on, as one number or as low-high; not set: 20000-28191"},
    {"URMA_TCP_TIMEOUT_MS", SettingType::kNumber, "1000", "100-600000",
     "milliseconds that a peer of the tcp provider may be silent before it counts as gone"},
    {"URMA_TCP_SECRET_FILE", SettingType::kString, "", "",
     "file with the secret that all processes talking over TCP must share; not set: they talk to "
     "any peer that reaches them"},
    {"URMA_TCP_TLS", SettingType::kString, "off", "",
     "off, psk (encrypted with a key from the secret file), or the files of this host's "
     "certificate, its private key, and the certificates of the signers of peers, separated by "
     "commas"},
};

}  // namespace

std::span<const SettingRow> setting_rows() { return kRows; }

namespace core {
namespace {

size_t row_index(const char* name) {
  for (size_t i = 0; i < std::size(kRows); ++i) {
    if (std::strcmp(kRows[i].name, name) == 0) return i;
  }
  fail(URMA_EINVAL, "unknown setting {}", name);
}

bool has_row(std::string_view name) {
  return std::any_of(std::begin(kRows), std::end(kRows),
                     [&](const SettingRow& row) { return name == row.name; });
}

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return a.size() == b.size() && ::strncasecmp(a.data(), b.data(), a.size()) == 0;
}

// The word of "a|b|c" that matches the text, as the table spells it.
std::optional<std::string> find_choice(std::string_view choices, std::string_view text) {
  while (!choices.empty()) {
    const auto word = choices.substr(0, choices.find('|'));
    if (equal_ignoring_case(word, text)) return std::string(word);
    choices.remove_prefix(std::min(word.size() + 1, choices.size()));
  }
  return std::nullopt;
}

std::optional<uint64_t> parse_number(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

bool in_range(std::string_view range, uint64_t value) {
  const auto dash = range.find('-');
  return value >= *parse_number(range.substr(0, dash)) &&
         value <= *parse_number(range.substr(dash + 1));
}

bool is_separator(std::string_view text) {
  return text.size() <= 7 && text.find_first_not_of("|,;:-/.~#") == std::string_view::npos;
}

// What is wrong with a text that has a syntax; "": nothing.
std::string what_is_wrong(const SettingRow& row, std::string_view text) {
  const std::string_view name = row.name;
  try {
    if (name == "URMA_FAULT") parse_faults(text);
    if (name == "URMA_SHM_PEERS") PeerUsers{text};
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

// The text in the form that is compared, or nothing if the row does not allow it.
std::optional<std::string> normalise(const SettingRow& row, std::string_view text) {
  switch (row.type) {
    case SettingType::kChoice:
      return find_choice(row.range, text);
    case SettingType::kNumber: {
      const auto value = parse_number(text);
      if (!value || !in_range(row.range, *value)) return std::nullopt;
      return std::to_string(*value);
    }
    case SettingType::kBool:
      if (find_choice("1|true|yes|on", text)) return "1";
      if (find_choice("0|false|no|off", text)) return "0";
      return std::nullopt;
    case SettingType::kString:
      if (std::string_view(row.name) == "URMA_LOG_SEPARATOR" && !is_separator(text)) {
        return std::nullopt;
      }
      if (!what_is_wrong(row, text).empty()) return std::nullopt;
      return std::string(text);
  }
  return std::nullopt;
}

// What is allowed, for a text that is not.
std::string allowed(const SettingRow& row, std::string_view text) {
  if (auto wrong = what_is_wrong(row, text); !wrong.empty()) return wrong;
  if (row.type == SettingType::kBool) return "allowed: 0 or 1";
  return urma::format("allowed: {}", row.range[0] != '\0' ? row.range : row.help);
}

}  // namespace

// The settings of one file.
struct EnvSettings::Source {
  ConfigFile file;
  urma_ext_origin_t origin;

  // The last line that names the setting.
  const ConfigLine* find(std::string_view name) const {
    const auto& lines = file.lines;
    const auto found = std::find_if(lines.rbegin(), lines.rend(),
                                    [&](const ConfigLine& line) { return line.name == name; });
    return found == lines.rend() ? nullptr : &*found;
  }
};

EnvSettings::EnvSettings() : system_config_(kSystemConfig) {
  for (const auto& row : kRows) values_.push_back({row.fallback, URMA_EXT_ORIGIN_DEFAULT, ""});
}

std::vector<EnvSettings::Source> EnvSettings::read_files(const std::string& system_config,
                                                         std::vector<std::string>* complaints) {
  std::vector<Source> files;
  files.push_back({read_config_file(user_config_path()), URMA_EXT_ORIGIN_USER_FILE});
  files.push_back({read_config_file(system_config), URMA_EXT_ORIGIN_SYSTEM_FILE});
  for (const auto& source : files) {
    for (const auto& complaint : source.file.complaints) complaints->push_back(complaint);
    for (const auto& line : source.file.lines) {
      if (has_row(line.name)) continue;
      complaints->push_back(urma::format("{} is ignored: unknown setting {:.64}; see urma_env(7)",
                                         line.place, line.name));
    }
  }
  return files;
}

EnvSettings::Value EnvSettings::decide(const SettingRow& row, const std::vector<Source>& files,
                                       std::vector<std::string>* complaints) {
  std::string place;
  const char* text = std::getenv(row.name);
  auto origin = URMA_EXT_ORIGIN_ENVIRONMENT;
  for (const auto& source : files) {
    if (text != nullptr) break;
    if (const ConfigLine* line = source.find(row.name); line != nullptr) {
      text = line->value.c_str();
      origin = source.origin;
      place = line->place + ": ";
    }
  }
  if (text == nullptr) return {row.fallback, URMA_EXT_ORIGIN_DEFAULT, ""};
  if (auto value = normalise(row, text)) return {std::move(*value), origin, ""};
  complaints->push_back(urma::format("{}{}={:.128} is not allowed and has no effect; {}", place,
                                     row.name, text, allowed(row, text)));
  return {row.fallback, URMA_EXT_ORIGIN_REFUSED, text};
}

std::vector<std::string> EnvSettings::load() {
  std::vector<std::string> complaints;
  std::vector<Value> values;
  // The caller of a set-user-id program must not control it.
  if (::getauxval(AT_SECURE) != 0) {
    for (const auto& row : kRows) {
      const bool set = std::getenv(row.name) != nullptr;
      values.push_back({row.fallback, set ? URMA_EXT_ORIGIN_IGNORED : URMA_EXT_ORIGIN_DEFAULT, ""});
    }
  } else {
    const auto files = read_files(system_config_, &complaints);
    for (const auto& row : kRows) values.push_back(decide(row, files, &complaints));
  }
  const MutexLock lock(mutex_);
  values_ = std::move(values);
  return complaints;
}

void EnvSettings::put_in_force(const char* name, const std::string& text) {
  const auto index = row_index(name);
  const MutexLock lock(mutex_);
  values_[index].text = text;
}

std::string EnvSettings::text(const char* name) const {
  const auto index = row_index(name);
  const MutexLock lock(mutex_);
  return values_[index].text;
}

uint64_t EnvSettings::number(const char* name) const {
  const auto value = parse_number(text(name));
  if (!value) fail(URMA_EINVAL, "setting {} is not a number", name);
  return *value;
}

bool EnvSettings::flag(const char* name) const { return text(name) == "1"; }

std::vector<urma_ext_setting_t> EnvSettings::report() const {
  std::vector<urma_ext_setting_t> settings;
  const MutexLock lock(mutex_);
  for (size_t i = 0; i < std::size(kRows); ++i) {
    urma_ext_setting_t setting = {};
    copy_text(setting.name, kRows[i].name);
    copy_text(setting.value, values_[i].text);
    copy_text(setting.given, values_[i].refused);
    copy_text(setting.fallback, kRows[i].fallback);
    copy_text(setting.range, kRows[i].type == SettingType::kBool ? "0|1" : kRows[i].range);
    copy_text(setting.help, kRows[i].help);
    setting.origin = values_[i].origin;
    settings.push_back(setting);
  }
  return settings;
}

EnvSettings& settings() {
  static auto& the_settings = *new EnvSettings;
  return the_settings;
}

}  // namespace core
}  // namespace urma
