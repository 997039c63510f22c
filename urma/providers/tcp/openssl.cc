// SPDX-License-Identifier: MIT
#include "urma/providers/tcp/openssl.h"

#include <dlfcn.h>

#include <array>

#include "urma/base/error.h"

namespace urma::tcp {
namespace {

constexpr char kLibrary[] = "libssl.so.3";

template <typename Function>
void find(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(::dlsym(library, name));
  if (*function == nullptr) fail(URMA_FAIL, "{} lacks {}; install libssl3", kLibrary, name);
}

OpenSsl load() {
  void* const library = ::dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) {
    fail(URMA_FAIL,
         "URMA_TCP_SECRET_FILE and URMA_TCP_TLS need OpenSSL: {}; install libssl3, or set neither",
         ::dlerror());
  }
  OpenSsl found;
#define URMA_TCP_FIND(name) find(library, #name, &found.name);
  URMA_TCP_OPENSSL_FUNCTIONS(URMA_TCP_FIND)
#undef URMA_TCP_FIND
  // A thread of this library may use it while the program exits.
  found.OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, nullptr);
  return found;
}

}  // namespace

std::string OpenSsl::error() const {
  const auto code = ERR_get_error();
  ERR_clear_error();
  if (code == 0) return "";
  std::array<char, 256> text;
  ERR_error_string_n(code, text.data(), text.size());
  return text.data();
}

const OpenSsl& openssl() {
  static const OpenSsl loaded = load();
  return loaded;
}

}  // namespace urma::tcp
