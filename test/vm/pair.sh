#!/bin/bash
#
# usage: pair.sh SERVER-COMMAND CLIENT-COMMAND
# Runs the client as soon as the server listens. Fails if either does.

set -uo pipefail

# Prints how many sockets and RDMA identifiers listen.
listeners() {
  local sockets
  sockets="$(cat /proc/net/tcp /proc/net/tcp6 | awk '$4 == "0A"' | wc -l)"
  echo "$((sockets + $(rdma resource show cm_id | grep -c LISTEN)))"
}

before="$(listeners)"
bash -c "exec $1" </dev/null &
server=$!
until (($(listeners) > before)); do
  kill -0 "${server}" || {
    echo "pair: the server ended before it listened" >&2
    exit 1
  }
  sleep 0.05
done
bash -c "exec $2" </dev/null
client_status=$?
((client_status == 0)) || kill "${server}"
wait "${server}"
server_status=$?
echo "pair: the client ended with ${client_status}, the server with ${server_status}"
((client_status == 0 && server_status == 0))
