#!/bin/bash
# SPDX-License-Identifier: MIT
#
# demo.sh BINDIR [TMPDIR]: runs every example as two processes, a server and a
# client (which may start more), and shows their output. Succeeds if all of them
# do. The programs are in BINDIR or in its folder examples. Each may take
# DEMO_SECONDS, 60 by default. DEMO_EXAMPLES names the examples to run instead of
# all.
#
# The processes share a private runtime directory, made in TMPDIR and removed at
# the end, so that they affect nothing outside. They use the device that
# URMA_DEVICE names; the clients use that of URMA_PEER_DEVICE if set. The servers
# listen at DEMO_ADDRESS, 127.0.0.1 by default. DEMO_SERVER and DEMO_CLIENT are
# prefixes of their commands.
set -uo pipefail

usage() { echo "usage: $0 BINDIR [TMPDIR]" >&2; exit 2; }
(($# == 1 || $# == 2)) || usage
bindir=$1
[[ -d $bindir/examples ]] && bindir+=/examples
examples=(send_recv_polling send_recv_event segment mapped one_to_many event_loop
  send_recv_event_cc segment_cc)
[[ -z ${DEMO_EXAMPLES:-} ]] || read -ra examples <<<"$DEMO_EXAMPLES"
limit=${DEMO_SECONDS:-60}

URMA_RUNTIME_DIR=$(mktemp -d -p "${2:-${TMPDIR:-/tmp}}" urma-demo.XXXXXX) || exit 1
export URMA_RUNTIME_DIR
as_client=()
[[ -z ${URMA_PEER_DEVICE:-} ]] || as_client=(env "URMA_DEVICE=$URMA_PEER_DEVICE")
read -ra server_prefix <<<"${DEMO_SERVER:-}"
read -ra client_prefix <<<"${DEMO_CLIENT:-}"
as_client=("${client_prefix[@]}" "${as_client[@]}")
address=${DEMO_ADDRESS:-127.0.0.1}
trap 'rm -rf "$URMA_RUNTIME_DIR"' EXIT

prefix() { sed -u "s/^/[$1] /"; }

# Runs one example. The server takes any free port and prints it; the client starts once the server
# can answer.
run() {
  local program=$bindir/$1 server line port='' from_server to_screen failed=0
  echo "== $1"
  exec {from_server}< <(exec timeout "$limit" "${server_prefix[@]}" "$program" server 0 "$address" 2>&1)
  server=$!
  while IFS= read -r line <&"$from_server"; do
    echo "[server] $line"
    [[ $line =~ ^listening\ on\ port\ ([0-9]+)$ ]] && port=${BASH_REMATCH[1]} && break
  done
  prefix server <&"$from_server" &
  to_screen=$!
  if [[ $port ]]; then
    timeout "$limit" "${as_client[@]}" "$program" client "$address" "$port" 2>&1 | prefix client ||
      { failed=1; kill "$server" 2>/dev/null; }
  fi
  wait "$server" || failed=1
  wait "$to_screen"
  exec {from_server}<&-
  return "$failed"
}

failures=()
for example in "${examples[@]}"; do
  run "$example" || failures+=("$example")
done

if ((${#failures[@]})); then
  echo "demo: ${#failures[@]} of ${#examples[@]} examples failed: ${failures[*]}"
  exit 1
fi
echo "demo: ${#examples[@]} of ${#examples[@]} examples ok"
