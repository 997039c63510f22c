// SPDX-License-Identifier: MIT
//
// What most tests include. Tests still include what they use: not every compiler gets this.
#ifndef TEST_PRECOMPILED_HEADERS_H_
#define TEST_PRECOMPILED_HEADERS_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#endif  // TEST_PRECOMPILED_HEADERS_H_
