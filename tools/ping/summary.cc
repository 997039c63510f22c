// SPDX-License-Identifier: MIT
#include "tools/ping/summary.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "tools/ping/place.h"

namespace ping {

void Summary::add_reply(double ms) {
  min_ = received_ == 0 ? ms : std::min(min_, ms);
  max_ = std::max(max_, ms);
  sum_ += ms;
  sum_of_squares_ += ms * ms;
  ++received_;
}

double Summary::loss() const {
  return transmitted_ == 0 ? 0 : 100.0 * (transmitted_ - received_) / transmitted_;
}

double Summary::elapsed_ms() const {
  return std::chrono::duration<double, std::milli>(Clock::now() - start_).count();
}

double Summary::deviation() const {
  // Rounding can make the difference negative.
  return std::sqrt(std::max(0.0, sum_of_squares_ / received_ - average() * average()));
}

std::string Summary::text() const {
  char line[256];
  std::snprintf(line, sizeof(line),
                "%u packets transmitted, %u received, %.1f%% packet loss, time %.0fms\n",
                transmitted_, received_, loss(), elapsed_ms());
  std::string text = std::string("--- ping statistics ---\n") + line;
  if (received_ > 0) {
    std::snprintf(line, sizeof(line), "rtt min/avg/max/mdev = %.3f/%.3f/%.3f/%.3f ms\n", min_,
                  average(), max_, deviation());
    text += line;
  }
  return text;
}

std::string Summary::json(const Settings& settings, const std::string& local) const {
  nlohmann::ordered_json json;
  json["destination"] = to_text(settings.destination);
  json["local"] = local;
  json["bytes"] = settings.size;
  json["transmitted"] = transmitted_;
  json["received"] = received_;
  json["loss_percent"] = loss();
  json["time_ms"] = elapsed_ms();
  json["timeouts"] = timeouts_;
  json["cr_status"] = nlohmann::ordered_json::object();
  for (const auto& [status, count] : errors_) json["cr_status"][std::to_string(status)] = count;
  if (received_ > 0) {
    json["rtt_ms"] = {{"min", min_}, {"avg", average()}, {"max", max_}, {"mdev", deviation()}};
  } else {
    json["rtt_ms"] = nullptr;
  }
  return json.dump(2) + "\n";
}

}  // namespace ping
