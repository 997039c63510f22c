// SPDX-License-Identifier: MIT
//
// The only file with fmt's own code, so that nothing needs libfmt at run time.
#define FMT_HEADER_ONLY
#include "third_party/fmt/format.h"

#include <fmt/format.h>

namespace urma {

std::string format_args(fmt::string_view format, fmt::format_args args) {
  return fmt::vformat(format, args);
}

}  // namespace urma
