#!/bin/bash
# SPDX-License-Identifier: MIT
#
# All examples between two hosts, simulated by network namespaces; some once more, over TLS.
set -euo pipefail

[[ -n ${DEMO_CLIENT:-} ]] || exec tools/dev/two_hosts.sh --or-skip "$0" "$@"

readonly printed="${TEST_TMPDIR}/printed" secret="${TEST_TMPDIR}/secret"
export DEMO_SECONDS=100

# Runs the examples, $1 of them, and looks at what they print.
run() {
  examples/demo.sh . "${TEST_TMPDIR}" | tee "${printed}"
  grep -qx "demo: $1 of $1 examples ok" "${printed}"
  grep -q '^\[client\]   65536 bytes, checksum ok' "${printed}"
  grep -qx '\[client\] 1000 fetch and adds, 1000 compare and swaps: ok' "${printed}"
  grep -q '^\[server\] counter [0-9]*: ok$' "${printed}"
}

run 8
(umask 077 && echo 'known to both of the two hosts' >"${secret}")
export URMA_TCP_SECRET_FILE=${secret} URMA_TCP_TLS=psk
DEMO_EXAMPLES='send_recv_polling send_recv_event segment' run 3
