// SPDX-License-Identifier: MIT
#ifndef TEST_TCP_SERVICE_THREAD_H_
#define TEST_TCP_SERVICE_THREAD_H_

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

namespace urma_test {

inline std::string word_behind(const std::string& file, const std::string& name) {
  std::ifstream words(file);
  for (std::string word; words >> word;) {
    if (word == name && words >> word) return word;
  }
  throw std::runtime_error(file + " has no " + name);
}

// What the kernel says of the service thread of this process, see proc_pid_status(5).
inline std::string status_of_service_thread(const std::string& name) {
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
    const std::string status = thread.path() / "status";
    if (word_behind(status, "Name:") == "urma-service") return word_behind(status, name);
  }
  throw std::runtime_error("no service thread");
}

}  // namespace urma_test

#endif  // TEST_TCP_SERVICE_THREAD_H_
