// SPDX-License-Identifier: MIT
#include "tools/admin/command_line.h"

#include <CLI/CLI.hpp>
#include <cctype>
#include <charconv>
#include <map>
#include <sstream>

#include "third_party/fmt/format.h"
#include "tools/admin/text.h"
#include "urma_api.h"
#include "urma_ext.h"

namespace admin {
namespace {

constexpr uint64_t kMaxPid = 1 << 22;
constexpr uint64_t kMaxWatchSeconds = 86400;

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

uint64_t parse_number(const std::string& name, const std::string& text, uint64_t min,
                      uint64_t max) {
  const bool hex = text.starts_with("0x") || text.starts_with("0X");
  const char* begin = text.data() + (hex ? 2 : 0);
  const char* end = text.data() + text.size();
  uint64_t value = 0;
  const auto [stopped, error] = std::from_chars(begin, end, value, hex ? 16 : 10);
  if (error != std::errc() || stopped != end || value < min || value > max) {
    throw CLI::ValidationError(
        urma::format("{} '{}' is not a number from {} to {}", name, text, min, max),
        CLI::ExitCodes::ValidationError);
  }
  return value;
}

std::string parse_choice(const std::string& name, const std::string& text,
                         const std::string& choices) {
  for (const auto& choice : split(choices, '|')) {
    if (choice == text) return text;
  }
  throw CLI::ValidationError(urma::format("{} '{}' is not one of {}", name, text, choices),
                             CLI::ExitCodes::ValidationError);
}

// An EID that a device can have.
std::string parse_eid(const std::string& name, const std::string& text) {
  // An error is reported in one line, not also in the log.
  const urma_vlog_level_t level = urma_log_get_level();
  urma_log_set_level(URMA_VLOG_LEVEL_EMERG);
  urma_eid_t eid;
  const bool valid = urma_str_to_eid(text.c_str(), &eid) == 0;
  urma_log_set_level(level);
  if (!valid || (eid.in6.subnet_prefix == 0 && eid.in6.interface_id == 0)) {
    throw CLI::ValidationError(
        urma::format("{} '{}' is not an IPv6 address, an IPv4 address or a number other than 0",
                     name, text),
        CLI::ExitCodes::ValidationError);
  }
  return eid_text(eid);
}

// Help for a word that is a command only together with another one.
std::string group_help(std::string_view word) {
  static constexpr std::pair<std::string_view, const char*> kGroups[] = {
      {"perf", "measure the calls of the data path in processes"},
      {"eid", "the EID table of a device"},
      {"dev", "namespaces and service levels of a device"},
      {"main_ue_eid", "which EID belongs to which main EID"},
      {"system", "what is shared between namespaces"},
      {"agg", "aggregated devices"}};
  for (const auto& [group, help] : kGroups) {
    if (group == word) return help;
  }
  return "";
}

// The commands of the table as a tree of CLI11 applications that fill one set of options.
class CommandTree {
 public:
  explicit CommandTree(Options* options);

  // The command that the words lead to.
  void parse(int argc, const char* const* argv) { app_.parse(argc, argv); }
  std::string help() const { return app_.help(); }
  const CLI::App* deepest() const;
  const Command* command_of(const CLI::App* app) const;
  // The words allowed after `app`.
  std::string allowed(const CLI::App* app) const;
  std::string example(const CLI::App* app) const;

 private:
  void add_options();
  void add_number(const std::string& names, std::optional<uint64_t>* value, uint64_t min,
                  uint64_t max, const char* help);
  void add_command(const Command& command);
  void add_operand(CLI::App* app, std::string word, bool first_choice);

  Options* options_;
  CLI::App app_{"Shows the devices of this machine, and what processes of this user do with them."};
  std::map<std::pair<const CLI::App*, std::string>, CLI::App*> words_;  // by parent and word
  std::map<const CLI::App*, const Command*> commands_;
};

CommandTree::CommandTree(Options* options) : options_(options) {
  app_.name("urma_admin");
  app_.fallthrough();
  app_.require_subcommand(0, 1);
  app_.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  add_options();
  for (const auto& command : commands()) add_command(command);
}

void CommandTree::add_number(const std::string& names, std::optional<uint64_t>* value, uint64_t min,
                             uint64_t max, const char* help) {
  const auto parse = [=](const std::string& text) {
    *value = parse_number(split(names, ',').back(), text, min, max);
  };
  app_.add_option_function<std::string>(names, parse, help)->type_name("N");
}

void CommandTree::add_options() {
  app_.set_version_flag("-V,--version",
                        std::string("Version: 0.0.1\nliburma ") + urma_ext_version());
  app_.add_flag("-a,--all", options_->all, "all devices, also beside aggregated ones");
  app_.add_flag("-b,--brief", options_->brief, "one line for each EID (default)");
  app_.add_flag("-w,--whole", options_->whole, "all attributes of the devices");
  app_.add_option("-d,--dev", options_->device, "only this device")->type_name("D");
  app_.add_option_function<std::string>(
          "-e,--eid", [this](const std::string& text) { options_->eid = parse_eid("--eid", text); },
          "an EID")
      ->type_name("EID");
  app_.add_option_function<std::string>(
          "-m,--mode,--eid_mode",
          [this](const std::string& text) {
            options_->eid_mode = parse_choice("--eid_mode", text, "static|dynamic");
          },
          "mode of an EID; without a value: dynamic")
      ->type_name("static|dynamic")
      ->expected(0, 1)
      ->default_str("dynamic");
  add_number("-v,--ue_idx", &options_->ue_index, 0, UINT16_MAX, "index of a UE");
  add_number("-i,--idx", &options_->index, 0, URMA_MAX_EID_CNT - 1, "entry of the EID table");
  add_number("-R,--resource_type", &options_->resource_type, 0, UINT8_MAX, "kind of object");
  add_number("-k,--key", &options_->key, 0, UINT32_MAX, "id of an object");
  add_number("-K,--key_ext", &options_->key_ext, 0, UINT32_MAX, "second part of an id");
  add_number("-C,--key_cnt", &options_->key_count, 0, UINT32_MAX, "number of ids");
  app_.add_option("-n,--ns", options_->ns, "network namespace, as /proc/PID/ns/net");
  app_.add_option_function<std::string>(
          "-M,--ns_mode",
          [this](const std::string& text) {
            options_->ns_mode = parse_choice("--ns_mode", text, "0|1|exclusive|shared");
          },
          "of the namespaces: exclusive (0) or shared (1)")
      ->type_name("0|1");
  add_number("-p,--priority", &options_->priority, 0, URMA_MAX_PRIORITY_CNT - 1, "a priority");
  add_number("-s,--sl", &options_->sl, 0, URMA_MAX_PRIORITY_CNT - 1, "a service level");
  app_.add_flag("--json", options_->json, "print JSON");
  app_.add_option_function<std::string>(
          "--format",
          [this](const std::string& text) {
            const std::string format = parse_choice("--format", text, "text|json|prometheus");
            options_->json = format == "json";
            options_->prometheus = format == "prometheus";
          },
          "output format; prometheus: the totals, once")
      ->type_name("text|json|prometheus");
  add_number("--pid", &options_->pid, 1, kMaxPid, "only this process");
  add_number("--watch", &options_->watch, 1, kMaxWatchSeconds, "seconds between two reports");
  add_number("--count", &options_->count, 1, UINT32_MAX, "number of reports");
}

void CommandTree::add_command(const Command& command) {
  CLI::App* app = &app_;
  bool first_choice = true;
  for (const auto& word : split(command.words, ' ')) {
    const bool choice = word.find('|') != std::string::npos;
    if (choice || word[0] == '[' || std::isupper(word[0]) != 0) {
      add_operand(app, word, first_choice);
      if (choice) first_choice = false;
      continue;
    }
    CLI::App*& next = words_[{app, word}];
    if (next == nullptr) {
      next = app->add_subcommand(word, group_help(word));
      next->require_subcommand(0, 1);
      next->footer(urma::format("Example: urma_admin {}", command.example));
      if (*command.instead != '\0') next->group("Old words");
    }
    app = next;
  }
  app->description(command.help);
  commands_[app] = &command;
}

void CommandTree::add_operand(CLI::App* app, std::string word, bool first_choice) {
  const bool optional = word[0] == '[';
  if (optional) word = word.substr(1, word.size() - 2);
  std::function<void(const std::string&)> take;
  if (word.find('|') != std::string::npos) {
    std::string* target = first_choice ? &options_->what : &options_->value;
    const std::string choices = word;
    word = first_choice ? "KIND" : "SETTING";
    take = [=](const std::string& text) { *target = parse_choice(word, text, choices); };
  } else if (word == "ID" || word == "NODE" || word == "IDX") {
    auto* target = word == "ID"     ? &options_->id
                   : word == "NODE" ? &options_->node
                                    : &options_->index;
    const uint64_t max = word == "IDX" ? URMA_MAX_EID_CNT - 1 : UINT32_MAX;
    take = [=](const std::string& text) { *target = parse_number(word, text, 0, max); };
  } else if (word == "EID" || word == "MAIN") {
    auto* target = word == "EID" ? &options_->eid : &options_->name;
    take = [=](const std::string& text) { *target = parse_eid(word, text); };
  } else {
    auto* target = word == "D"       ? &options_->device
                   : word == "NETNS" ? &options_->ns
                   : word == "NAME"  ? &options_->name
                                     : &options_->value;
    take = [=](const std::string& text) { *target = text; };
  }
  app->add_option_function<std::string>(word, take)->type_name("")->required(!optional);
}

const CLI::App* CommandTree::deepest() const {
  const CLI::App* app = &app_;
  while (!app->get_subcommands().empty()) app = app->get_subcommands().front();
  return app;
}

const Command* CommandTree::command_of(const CLI::App* app) const {
  const auto found = commands_.find(app);
  return found == commands_.end() ? nullptr : found->second;
}

std::string CommandTree::allowed(const CLI::App* app) const {
  std::vector<std::string> ways;
  if (const Command* command = command_of(app); command != nullptr) {
    ways.push_back(usage_of(*command));
  }
  std::string path;
  for (const CLI::App* at = app; at->get_parent() != nullptr; at = at->get_parent()) {
    path.insert(0, at->get_name() + ' ');
  }
  for (const CLI::App* next : app->get_subcommands([](const CLI::App*) { return true; })) {
    if (next->get_group() != "Old words") ways.push_back(path + next->get_name());
  }
  return joined(ways, ", ");
}

std::string CommandTree::example(const CLI::App* app) const {
  if (const Command* command = command_of(app); command != nullptr) return command->example;
  return example(app->get_subcommands([](const CLI::App*) { return true; }).front());
}

std::string line(const std::string& reason, int argc, const char* const* argv,
                 const std::string& allowed, const std::string& example) {
  std::vector<std::string> given(argv + std::min(argc, 1), argv + argc);
  std::string text = urma::format("{}; given: {}; allowed: {}; example: urma_admin {}", reason,
                                  given.empty() ? "nothing" : joined(given, " "), allowed, example);
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return std::iscntrl(c) != 0; }, ' ');
  return text;
}

// The documented options are accepted with every command, as getopt does; our own only if they
// have a meaning.
std::string misplaced_option(const Command& command, const Options& options) {
  const std::string_view known = command.options;
  const auto misplaced = [&](const char* name, bool given) {
    return given && known.find(name) == std::string_view::npos;
  };
  if (misplaced("--pid", options.pid.has_value())) return "--pid does not apply to this command";
  if (misplaced("--watch", options.watch.has_value()))
    return "--watch does not apply to this command";
  if (misplaced("--count", options.count.has_value()))
    return "--count does not apply to this command";
  if (misplaced("prometheus", options.prometheus))
    return "--format prometheus does not apply to this command";
  if (options.prometheus && (options.watch || options.count)) {
    return "--format prometheus prints once, without --watch and --count";
  }
  if (options.count && !options.watch && std::string_view(command.words) != "top") {
    return "--count needs --watch";
  }
  if (options.brief && options.all) return "--brief and --all exclude each other";
  return "";
}

}  // namespace

std::string usage_of(const Command& command) {
  return *command.options == '\0' ? command.words
                                  : urma::format("{} {}", command.words, command.options);
}

std::string complaint(const std::string& reason, int argc, const char* const* argv,
                      const Command& command) {
  return line(reason, argc, argv, usage_of(command), command.example);
}

Request parse_command_line(int argc, const char* const* argv) {
  Request request;
  CommandTree tree(&request.options);
  const auto refuse = [&](const std::string& reason) {
    const CLI::App* app = tree.deepest();
    throw UsageError(line(reason, argc, argv, tree.allowed(app), tree.example(app)));
  };
  try {
    tree.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    request.answer = tree.help();
    return request;
  } catch (const CLI::CallForVersion& version) {
    request.answer = std::string(version.what()) + '\n';
    return request;
  } catch (const CLI::ParseError& error) {
    refuse(error.what());
  }
  request.command = tree.command_of(tree.deepest());
  if (request.command == nullptr) refuse("a command is missing");
  if (const auto reason = misplaced_option(*request.command, request.options); !reason.empty()) {
    refuse(reason);
  }
  return request;
}

}  // namespace admin
