#!/bin/bash
# SPDX-License-Identifier: MIT
#
# `./dev new-provider` in a scratch copy of the files that it touches: the new module compiles,
# links without undefined symbols, loads, and has a device that passes the suite as far as one
# process can test, without skips. Invalid names, and names in use, change nothing.
set -euo pipefail

readonly tree="${TEST_TMPDIR}/tree" modules="${TEST_TMPDIR}/modules" root="${PWD}"
mkdir -p "${tree}/tools/dev" "${tree}/urma/providers/shm" "${tree}/test/loopback" "${modules}"
cp -L dev BUILD.bazel "${tree}/"
cp -L tools/dev/new_provider.sh "${tree}/tools/dev/"
cp -RL urma/providers/loopback "${tree}/urma/providers/"
cp -L test/loopback/BUILD.bazel test/loopback/loopback_test.cc "${tree}/test/loopback/"
readonly before="${TEST_TMPDIR}/before"
cp "${tree}/BUILD.bazel" "${before}"

fail() {
  echo "FAIL: $*"
  exit 1
}

for name in "" Upper 1st two-words shm loopback a123456789012345678901234; do
  ! "${tree}/dev" new-provider "${name}" &>/dev/null || fail "the name '${name}' was accepted"
done
cmp "${before}" "${tree}/BUILD.bazel" || fail "a refused name changed BUILD.bazel"

"${tree}/dev" new-provider acme | grep 'liburma-acme.so' >/dev/null || fail "it does not print what it created"
! "${tree}/dev" new-provider acme &>/dev/null || fail "a second provider of the same name was accepted"
(($(grep -c '"lib/acme/liburma-acme.so"' "${tree}/BUILD.bazel") == 1)) || fail "the top BUILD.bazel does not name the module once"
! grep -rqi 'loopback' "${tree}/urma/providers/acme" "${tree}/test/acme" ||
  fail "a placeholder was not replaced by the name"
[[ -s "${tree}/test/acme/acme_test.cc" ]] || fail "its own test is missing"
lines="$(cat "${tree}"/urma/providers/acme/* | wc -l)"
((lines <= 500)) || fail "the provider has ${lines} lines, more than 500"

mapfile -t archives < <(find jetty segment urma/base third_party/fmt -name '*.a')
c++ -std=c++20 -Wall -Wextra -Werror -fPIC -shared -fvisibility=hidden -O1 "-I${tree}" "-I${root}" \
  "-I${root}/urma/include" -o "${modules}/liburma-acme.so" "${tree}"/urma/providers/acme/*.cc \
  -fno-use-linker-plugin -Wl,--start-group "${archives[@]}" -Wl,--end-group \
  "-Wl,--version-script=${root}/urma/providers/module.map" -Wl,-z,defs

export URMA_PROVIDER_PATH="${modules}" URMA_RUNTIME_DIR="${TEST_TMPDIR}/runtime"
readonly said="${TEST_TMPDIR}/said"
unset XML_OUTPUT_FILE

# suite PROGRAM FILTER: every test of it passes, over the new device.
suite() {
  TEST_SRCDIR='' URMA_DEVICE=urma_acme0 CONFORMANCE_MODULE=none LEVEL_PROGRAM=none \
    "$1" --gtest_filter="$2" >"${said}" 2>&1 ||
    { tail -n 40 "${said}"; fail "$1 failed over the new device (above)"; }
  grep '^\[  PASSED  \] [1-9]' "${said}" >/dev/null || fail "$1 has no test for $2"
  ! grep '^\[  SKIPPED \]' "${said}" || fail "$1 skipped a test"
}
suite test/conformance/lines_test 'DeviceLines.*'
suite test/loopback/opcode_matrix_test '*OneProcess*'
