// SPDX-License-Identifier: MIT
//
// What most files include. Each file still includes what it uses: not every compiler gets this.
#ifndef THIRD_PARTY_PRECOMPILED_HEADERS_H_
#define THIRD_PARTY_PRECOMPILED_HEADERS_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#endif  // THIRD_PARTY_PRECOMPILED_HEADERS_H_
