// SPDX-License-Identifier: MIT

#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tools/perftest/options.h"
#include "tools/perftest/values.h"

namespace perftest {
namespace {

constexpr size_t kMaxRuns = 10000;

struct Line {
  std::string place;  // "FILE:3", for error messages
  std::string name;
  std::vector<std::string> options;
};

// Skips empty lines and those that start with #.
std::vector<Line> read_batch(const std::string& path) {
  std::ifstream file(path);
  std::vector<Line> lines;
  std::string text;
  for (int number = 1; std::getline(file, text); number++) {
    std::istringstream words(text);
    Line line;
    if (!(words >> line.name) || line.name.starts_with("#")) continue;
    line.place = path + ":" + std::to_string(number);
    for (std::string word; words >> word;) {
      if (word.starts_with("--batch")) {
        throw refusal(line.place + ": " + word, "batch files on the command line alone",
                      "small -s 8 -n 1000");
      }
      line.options.push_back(word);
    }
    lines.push_back(std::move(line));
  }
  if (!lines.empty()) return lines;
  throw refusal("--batch '" + path + "'",
                "a readable file with a line `name options...` for each run", "small -s 8 -n 1000");
}

// One combination: a line of each file.
Config parse_combination(const std::vector<std::vector<Line>>& files,
                         const std::vector<size_t>& chosen, std::vector<std::string> arguments) {
  std::string label;
  std::string place;
  for (size_t i = 0; i < files.size(); i++) {
    const Line& line = files[i][chosen[i]];
    label += (i == 0 ? "" : "/") + line.name;
    place += (i == 0 ? "" : ", ") + line.place;
    arguments.insert(arguments.end(), line.options.begin(), line.options.end());
  }
  try {
    Parsed parsed = parse_options(arguments);
    if (!parsed.config) throw refusal("--help or --version", "options of a run", "small -s 8");
    parsed.config->batch_label = label;
    return std::move(*parsed.config);
  } catch (const UsageError& error) {
    throw UsageError(place + ": " + error.what());
  }
}

// Increments `chosen`, the last digit fastest; false after the last combination.
bool advance(std::vector<size_t>& chosen, const std::vector<std::vector<Line>>& files) {
  for (size_t i = files.size(); i-- > 0;) {
    if (++chosen[i] < files[i].size()) return true;
    chosen[i] = 0;
  }
  return false;
}

}  // namespace

std::vector<Config> expand_batches(const Config& config,
                                   const std::vector<std::string>& arguments) {
  if (config.batch_files.empty()) return {config};
  std::vector<std::vector<Line>> files;
  size_t runs = 1;
  for (const std::string& path : config.batch_files) {
    files.push_back(read_batch(path));
    runs *= files.back().size();
    if (runs > kMaxRuns) {
      throw refusal("batch files of more than " + std::to_string(kMaxRuns) + " combinations",
                    "fewer lines or files", "--batch sizes.txt");
    }
  }
  std::vector<Config> configs;
  std::vector<size_t> chosen(files.size(), 0);
  do {
    configs.push_back(parse_combination(files, chosen, arguments));
  } while (advance(chosen, files));
  return configs;
}

}  // namespace perftest
