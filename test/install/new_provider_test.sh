#!/bin/bash
# SPDX-License-Identifier: MIT
#
# `./dev new-provider` in a scratch copy of what it touches: the module that it makes compiles,
# links without an open symbol, loads, and has a device over which the conformance suite runs and
# skips everything. Wrong names, and names that are taken, change nothing.
set -euo pipefail

readonly tree="${TEST_TMPDIR}/tree" modules="${TEST_TMPDIR}/modules" root="${PWD}"
mkdir -p "${tree}/tools/dev" "${tree}/urma/providers/shm" "${modules}"
cp -L dev "${tree}/dev"
cp -L tools/dev/new_provider.sh "${tree}/tools/dev/"
echo "# the top" >"${tree}/BUILD.bazel"

fail() {
  echo "FAIL: $*"
  exit 1
}

for name in "" Upper 1st two-words shm a123456789012345678901234; do
  ! "${tree}/dev" new-provider "${name}" &>/dev/null || fail "'${name}' was taken for a name"
done
[[ "$(cat "${tree}/BUILD.bazel")" == "# the top" && ! -e "${tree}/test" ]] ||
  fail "a name that was refused has left something"

"${tree}/dev" new-provider acme | grep 'liburma-acme.so' >/dev/null || fail "it does not say what it made"
! "${tree}/dev" new-provider acme &>/dev/null || fail "a second one of the same name"
(($(grep -c 'lib/urma/liburma-acme.so' "${tree}/BUILD.bazel") == 1)) || fail "the top BUILD.bazel"
! grep -rq 'NAME' "${tree}/urma/providers/acme" "${tree}/test/acme" ||
  fail "a name was not filled in"

c++ -std=c++20 -Wall -Wextra -Werror -fPIC -shared \
  -fvisibility=hidden -O1 "-I${root}" "-I${root}/urma/include" -o "${modules}/liburma-acme.so" \
  "${tree}/urma/providers/acme/module.cc" urma/base/libbase.a third_party/fmt/libfmt.a \
  "-Wl,--version-script=${root}/urma/providers/module.map" -Wl,-z,defs

export URMA_PROVIDER_PATH="${modules}" URMA_RUNTIME_DIR="${TEST_TMPDIR}/runtime"
readonly said="${TEST_TMPDIR}/said"
# What the suite skips here is the result of this one test.
unset XML_OUTPUT_FILE
TEST_SRCDIR='' URMA_DEVICE=urma_acme0 CONFORMANCE_MODULE=none LEVEL_PROGRAM=none \
  test/conformance/lines_test --gtest_filter='DeviceLines.*' >"${said}" 2>&1 ||
  { tail -n 40 "${said}"; fail "the conformance suite over the new device"; }
grep -q 'urma_acme0 has no create_jfc' "${said}" || fail "no test says why it was skipped"
skipped="$(sed -n 's/^\[  SKIPPED \] \([0-9]*\) tests.*/\1/p' "${said}")"
((skipped > 50)) || fail "only ${skipped:-0} tests were skipped"
! grep -q '^\[  PASSED  \] [1-9]' "${said}" || fail "something passed on a device that has nothing"
