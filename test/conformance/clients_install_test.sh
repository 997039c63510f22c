#!/bin/bash
# SPDX-License-Identifier: MIT
#
# What programs rely on in an installation (C1_01 and C1_02 of docs/reference/conformance.md): both
# include paths of the headers, -lurma, and both names of the library for dlopen.
set -euo pipefail

source test/install/installed.sh
readonly prefix="${TEST_TMPDIR}/prefix"
install_built "${prefix}"

for header in urma/include/*.h; do
  cmp "${header}" "${prefix}/include/${header##*/}"
  cmp "${header}" "${prefix}/include/ub/umdk/urma/${header##*/}"
done
[[ "$(readlink "${prefix}/lib/liburma.so")" == liburma.so.0 ]]
[[ -x "${prefix}/share/doc/urma/examples/segment" ]]

export PKG_CONFIG_PATH="${prefix}/lib/pkgconfig" LD_LIBRARY_PATH="${prefix}/lib"
export URMA_RUNTIME_DIR="${TEST_TMPDIR}/runtime"
read -ra flags <<<"$(pkg-config --cflags --libs urma)"

# A program linked with -lurma, with the headers under each include path.
for include in '"urma_api.h"' '<ub/umdk/urma/urma_api.h>'; do
  cat >"${TEST_TMPDIR}/linked.c" <<END
#include ${include}
int main(void) {
  int count = 0;
  if (urma_init(NULL) != URMA_SUCCESS) return 1;
  urma_device_t** list = urma_get_device_list(&count);
  urma_free_device_list(list);
  return urma_uninit() == URMA_SUCCESS && count > 0 ? 0 : 2;
}
END
  "${CC:-cc}" -std=c11 -Wall -Werror -o "${TEST_TMPDIR}/linked" "${TEST_TMPDIR}/linked.c" \
    "${flags[@]}"
  "${TEST_TMPDIR}/linked"
  "${CXX:-c++}" -std=c++20 -x c++ -fsyntax-only "${TEST_TMPDIR}/linked.c" "${flags[@]}"
done

# A program that opens the library itself, under each name, and resolves all functions at once.
cat >"${TEST_TMPDIR}/opened.c" <<'END'
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
static const char* const names[] = {
#define X(name) #name,
#include "urma_api_names.inc"
    "urma_log", "urma_log_loc", "urma_log_drop"};
int main(int argc, char** argv) {
  void* library = dlopen(argv[argc - 1], RTLD_NOW);
  if (library == NULL) return puts(dlerror()), 1;
  for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
    if (dlsym(library, names[i]) == NULL) return puts(dlerror()), 2;
  return sizeof(names) / sizeof(names[0]) == 131 ? 0 : 3;
}
END
"${CC:-cc}" -std=c11 -Itest/process -o "${TEST_TMPDIR}/opened" "${TEST_TMPDIR}/opened.c" -ldl
"${TEST_TMPDIR}/opened" liburma.so.0
"${TEST_TMPDIR}/opened" liburma.so
