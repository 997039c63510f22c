// SPDX-License-Identifier: MIT

#include "tools/perftest/options.h"

#include <algorithm>
#include <array>
#include <utility>

#include "tools/perftest/option_table.h"
#include "tools/perftest/values.h"
#include "urma_ext.h"

namespace perftest {
namespace {

struct Test {
  const char* name;
  Api api;
  Kind kind;
};

constexpr std::array<Test, 8> kTests = {{
    {"read_lat", Api::kRead, Kind::kLatency},
    {"write_lat", Api::kWrite, Kind::kLatency},
    {"send_lat", Api::kSend, Kind::kLatency},
    {"atomic_lat", Api::kAtomic, Kind::kLatency},
    {"read_bw", Api::kRead, Kind::kBandwidth},
    {"write_bw", Api::kWrite, Kind::kBandwidth},
    {"send_bw", Api::kSend, Kind::kBandwidth},
    {"atomic_bw", Api::kAtomic, Kind::kBandwidth},
}};

std::string test_names() {
  std::string names;
  for (const Test& test : kTests) names += (names.empty() ? "" : ", ") + std::string(test.name);
  return names;
}

// Parses the command line like getopt_long, unlike CLI11: -p1, -bLs8, -a20 but not -a 20,
// --iters=9, --iter 9. Gives CLI11 long options, each with its value, if any, as the next word.
class Normalizer {
 public:
  Normalizer(const CLI::App& app, const std::vector<std::string>& words)
      : app_(app), words_(words) {}

  std::vector<std::string> run() {
    for (next_ = 0; next_ < words_.size();) {
      const std::string& word = words_[next_++];
      if (word.starts_with("--") && word.size() > 2) {
        take_long(word.substr(2));
      } else if (word.starts_with("-") && word.size() > 1 && word != "--") {
        take_short(word);
      } else {
        throw refusal("'" + word + "'", "options after the test's name, see --help",
                      "urma_perftest send_lat -d urma_shm0");
      }
    }
    return std::move(out_);
  }

 private:
  void take_long(const std::string& text) {
    const size_t equals = text.find('=');
    const std::string name = text.substr(0, equals);
    const CLI::Option& option = find_long(name);
    const bool has_value = equals != std::string::npos;
    if (has_value && option.get_items_expected_max() == 0) {
      throw refusal("--" + text, "--" + name + " without a value", "--" + name);
    }
    emit(option, "--" + name, has_value, has_value ? text.substr(equals + 1) : "");
  }

  static std::string short_name(const std::string& name, const std::string& word) {
    return word.size() == 2 ? word : "-" + name + " in " + word;
  }

  void take_short(const std::string& word) {
    for (size_t i = 1; i < word.size(); i++) {
      const std::string name(1, word[i]);
      const CLI::Option* option = app_.get_option_no_throw("-" + name);
      if (option == nullptr) throw unknown(short_name(name, word));
      const bool flag = option->get_items_expected_max() == 0;
      const bool attached = !flag && i + 1 < word.size();
      emit(*option, "-" + name, attached, attached ? word.substr(i + 1) : "");
      if (!flag) return;
    }
  }

  void emit(const CLI::Option& option, const std::string& as_given, bool has_value,
            std::string value) {
    out_.push_back("--" + option.get_lnames().front());
    if (option.get_items_expected_max() == 0) return;
    if (!has_value && option.get_items_expected_min() > 0) {
      if (next_ == words_.size()) {
        throw refusal(as_given + " without a value", as_given + " " + option.get_type_name(),
                      "urma_perftest send_lat -d urma_shm0");
      }
      value = words_[next_++];
    } else if (!has_value) {
      value = next_number(option);
    }
    out_.push_back(value);
  }

  // Whether the next word is the number of --enable_write_dirty: the texts on UMDK's tool do not
  // say whether it must be attached. -a and -y take none.
  std::string next_number(const CLI::Option& option) {
    const bool may_follow = option.get_snames().empty() && next_ < words_.size();
    if (!may_follow || words_[next_].starts_with("-")) return kNoValue;
    return words_[next_++];
  }

  // Like getopt_long, accepts an unambiguous prefix of a name.
  const CLI::Option& find_long(const std::string& name) const {
    std::set<const CLI::Option*> found;
    std::string candidates;
    for (const CLI::Option* option : app_.get_options()) {
      for (const std::string& known : option->get_lnames()) {
        if (known == name) return *option;
        if (!known.starts_with(name)) continue;
        found.insert(option);
        candidates += (candidates.empty() ? "--" : ", --") + known;
      }
    }
    if (found.empty()) throw unknown("--" + name);
    if (found.size() > 1) {
      throw refusal("--" + name, "one of " + candidates,
                    candidates.substr(0, candidates.find(',')));
    }
    return **found.begin();
  }

  static UsageError unknown(const std::string& given) {
    return refusal(given, "the options of urma_perftest --help",
                   "urma_perftest send_lat -d urma_shm0 -s 64");
  }

  const CLI::App& app_;
  const std::vector<std::string>& words_;
  size_t next_ = 0;
  std::vector<std::string> out_;
};

std::string help_text(const CLI::App& app) {
  return "usage: urma_perftest TEST -d DEVICE [OPTION...]             the server\n"
         "       urma_perftest TEST -d DEVICE [OPTION...] -S HOST     its client\n"
         "       urma_perftest TEST -d DEVICE [OPTION...] --loopback  both in one process\n"
         "TEST is one of " +
         test_names() + ".\n" + CLI::Formatter().make_groups(&app, CLI::AppFormatMode::Normal);
}

// Looks for help and version among words that are options; an operand may be "-h" too.
bool asks_for(const std::vector<std::string>& normalized, const std::string& option) {
  return std::find(normalized.begin(), normalized.end(), option) != normalized.end();
}

bool asks_early(const std::vector<std::string>& arguments, const char* brief, const char* full) {
  return !arguments.empty() && (arguments.front() == brief || arguments.front() == full);
}

void check_first(const std::vector<std::string>& arguments) {
  if (!arguments.empty() && !arguments.front().starts_with("-")) return;
  const std::string given = arguments.empty() ? "no test" : "'" + arguments.front() + "' first";
  throw refusal(given, "the name of a test first, one of " + test_names(),
                "urma_perftest send_lat -d urma_shm0");
}

void run_parser(CLI::App& app, std::vector<std::string> words) {
  std::reverse(words.begin(), words.end());
  try {
    app.parse(std::move(words));
  } catch (const CLI::Error& error) {
    throw refusal(error.what(), "the options of urma_perftest --help",
                  "urma_perftest send_lat -d urma_shm0");
  }
}

}  // namespace

void set_test(Config& config, const std::string& name) {
  for (const Test& test : kTests) {
    if (name != test.name) continue;
    config.test = test.name;
    config.api = test.api;
    config.kind = test.kind;
    return;
  }
  throw refusal("test '" + name + "'", "one of " + test_names(),
                "urma_perftest send_lat -d urma_shm0");
}

Parsed parse_options(const std::vector<std::string>& arguments) {
  Draft draft;
  CLI::App app;
  app.set_help_flag();
  add_options(app, draft.config);
  bool unused = false;  // CLI11 does not see these words
  app.add_flag("-h,--help", unused, "print this")->group("The process");
  app.add_flag("-V,--version", unused, "print the version")->group("The process");
  const std::string version = std::string("urma_perftest ") + urma_ext_version() + "\n";
  if (asks_early(arguments, "-h", "--help")) return {std::nullopt, help_text(app)};
  if (asks_early(arguments, "-V", "--version")) return {std::nullopt, version};

  check_first(arguments);
  const std::vector<std::string> options(arguments.begin() + 1, arguments.end());
  std::vector<std::string> words = Normalizer(app, options).run();
  if (asks_for(words, "--help")) return {std::nullopt, help_text(app)};
  if (asks_for(words, "--version")) return {std::nullopt, version};
  set_test(draft.config, arguments.front());
  run_parser(app, std::move(words));
  for (const CLI::Option* option : app.get_options()) {
    if (option->count() > 0) draft.given.insert(option->get_lnames().front());
  }
  resolve(draft);
  return {std::move(draft.config), ""};
}

}  // namespace perftest
