#!/bin/bash
# SPDX-License-Identifier: MIT
#
# The server of an example has a client in its runtime directory, and then one on another host,
# which is simulated by a network namespace and has a directory of its own.
set -euo pipefail

[[ -n ${DEMO_CLIENT:-} ]] || exec tools/dev/two_hosts.sh --or-skip "$0" "$@"

readonly printed="${TEST_TMPDIR}/printed"
readonly there=${DEMO_CLIENT}
export DEMO_EXAMPLES='send_recv_polling send_recv_event segment' DEMO_SECONDS=100
for client in '' "${there}"; do
  echo "== clients: ${client:-in the same directory}"
  DEMO_CLIENT=${client} examples/demo.sh . "${TEST_TMPDIR}" | tee "${printed}"
  grep -qx 'demo: 3 of 3 examples ok' "${printed}"
  # What README.md shows of them.
  (($(grep -c '^\[client\] latency [0-9.]* ' "${printed}") == 3))
  grep -q '^\[client\]   65536 bytes, checksum ok' "${printed}"
  grep -qx '\[client\] 1000 fetch and adds, 1000 compare and swaps: ok' "${printed}"
  grep -q '^\[server\] counter [0-9]*: ok$' "${printed}"
done
