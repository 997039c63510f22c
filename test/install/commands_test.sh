#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Runs the command lines of the documents that need neither a peer, nor files, nor another process:
# each must succeed as written.
set -euo pipefail

export URMA_RUNTIME_DIR="${TEST_TMPDIR}/runtime"
export PATH="${PWD}/tools/admin:${PWD}/tools/perftest:${PATH}"
mkdir -m 700 "${URMA_RUNTIME_DIR}"

# Those in ``` blocks, without prompts and remarks.
commands() {
  awk '/^```/ { inside = !inside; next } inside' README.md docs/*/*.md |
    sed -e 's/^\$ //' -e 's/  *# .*//' |
    grep -E '^([A-Z_]+=[^ ]+ )?urma_(perftest .*--loopback|admin show)' |
    grep -vE -e '--(batch|pid|cpu)' | sort -u
}

ran=0
while read -r line; do
  line="${line//\/tmp\//${TEST_TMPDIR}/}"  # nothing is left behind
  echo "\$ ${line}"
  bash -c "set -o pipefail; ${line}" </dev/null >"${TEST_TMPDIR}/said" 2>&1 ||
    { cat "${TEST_TMPDIR}/said"; exit 1; }
  ran=$((ran + 1))
done < <(commands)
echo "${ran} commands"
((ran >= 5))
