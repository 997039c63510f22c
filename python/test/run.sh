#!/bin/bash
# SPDX-License-Identifier: MIT
#
# run.sh PROGRAM [ARGUMENT...]: runs a test of the Python binding with Debian's Python, against the
# library that was built. The last line says how many cases passed.
set -euo pipefail

readonly python=/usr/bin/python3
"${python}" -c 'import cffi' 2>/dev/null || { echo "SKIP: python3-cffi is not installed"; exit 0; }

readonly packages="${TEST_TMPDIR}/packages" output="${TEST_TMPDIR}/output"
mkdir -p "${packages}"
cp -rL python/urma "${packages}"
chmod -R u+w "${packages}"
"${python}" python/declare.py urma/include "${packages}/urma/_abi.py"
export PYTHONPATH="${packages}" LD_LIBRARY_PATH="${PWD}/lib"
export URMA_RUNTIME_DIR="${TEST_TMPDIR}/runtime"

case "$1" in
  *.py) "${python}" "$@" ;;
  *) "$@" ;;
esac 2>&1 | tee "${output}"

# As unittest counts: a skipped case has run.
ran="$(sed -n 's/^Ran \([0-9]*\) tests\? in .*/\1/p' "${output}")"
skipped="$(sed -n 's/^OK (skipped=\([0-9]*\))$/\1/p' "${output}")"
echo "$((${ran:-1} - ${skipped:-0})) passed, 0 failed, ${skipped:-0} skipped"
