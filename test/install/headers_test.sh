#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Compiles each public header by itself, with warnings enabled: no compiler may print anything.
#
#   headers_test.sh FOLDER/urma_api.h
set -euo pipefail

readonly include="$(cd "$(dirname "$1")" && pwd)" work="${TEST_TMPDIR}/headers"
readonly warnings=(-Wall -Wextra -Wpedantic)
mkdir -p "${work}"
cd "${work}"
compiled=0
noisy=0

# look COMPILER LANGUAGE STANDARD HEADER
look() {
  command -v "$1" >/dev/null || return 0
  echo "#include \"$4\"" >"program.$2"
  local said
  said="$("$1" "-std=$3" "${warnings[@]}" "-I${include}" -fsyntax-only "program.$2" 2>&1)" || true
  compiled=$((compiled + 1))
  [[ -z "${said}" ]] && return
  noisy=$((noisy + 1))
  printf '%s -std=%s %s:\n%s\n' "$1" "$3" "$4" "${said}"
}

for path in "${include}"/*.h "${include}"/*.hpp; do
  header="${path##*/}"
  for standard in c++17 c++20; do
    look g++ cc "${standard}" "${header}"
    look clang++ cc "${standard}" "${header}"
  done
  [[ "${header}" == *.hpp ]] && continue
  for standard in c11 c17; do
    look gcc c "${standard}" "${header}"
    look clang c "${standard}" "${header}"
  done
done

echo "${compiled} times compiled, ${noisy} with output"
((compiled > 0 && noisy == 0))
