#!/bin/bash
# SPDX-License-Identifier: MIT
#
# usage: find_fault.sh found|passes LIBRARY MODULE FINDER...
#
# Runs tests with these copies of the library and its module in place of the real ones. A FINDER is
# PROGRAM or PROGRAM=FILTER, a filter of GoogleTest. found: one of them must fail and report it; a
# copy that cannot be loaded, or a test that never ends, does not count. passes: all must pass.
set -euo pipefail

readonly LIMIT_S=100

# The programs must neither write the report of this test nor use its filter.
unset XML_OUTPUT_FILE TEST_PREMATURE_EXIT_FILE TESTBRIDGE_TEST_ONLY

expected="$1"
install_dir="$(mktemp -d "${TEST_TMPDIR:-/tmp}/fault.XXXXXX")"
trap 'rm -rf "${install_dir}"' EXIT
mkdir -p "${install_dir}/urma"
cp -L "$2" "${install_dir}/liburma.so.0"
cp -L "$3" "${install_dir}/urma/liburma-shm.so"
shift 3

for finder in "$@"; do
  program="${finder%%=*}"
  filter='*'
  [[ "${finder}" == *=* ]] && filter="${finder#*=}"
  status=0
  LD_LIBRARY_PATH="${install_dir}" MODEL_SEQUENCES=900 MODEL_SHRINKING=0 \
    URMA_DEVICE_ALIAS=bonding_dev_0=urma_shm0 timeout "${LIMIT_S}" "${program}" \
    --gtest_fail_fast --gtest_filter="${filter}" >"${install_dir}/output" 2>&1 || status=$?
  echo "${program} ${filter}: status ${status}"
  if [[ "${status}" -eq 1 ]] && grep -qF '[  FAILED  ]' "${install_dir}/output"; then
    tail -n 30 "${install_dir}/output"
    [[ "${expected}" == found ]] && exit 0
    exit 1
  fi
  if [[ "${status}" -ne 0 ]] || ! grep -qF '[  PASSED  ]' "${install_dir}/output"; then
    tail -n 30 "${install_dir}/output"
    echo "that is not the result of a test"
    exit 1
  fi
done
[[ "${expected}" == passes ]] && exit 0
echo "no test found the fault"
exit 1
