#!/bin/bash
# SPDX-License-Identifier: MIT
#
# two_hosts.sh [--or-skip] COMMAND [ARGUMENT...]: runs examples/demo.sh, or another COMMAND, with
# the servers on one host and the clients on another: two network namespaces with a cable between
# them, each with a runtime directory. Needs root, or a kernel with unprivileged user namespaces,
# and ip(8). With --or-skip, COMMAND is a test, and is skipped where there may be no namespaces.
set -euo pipefail

if [[ -z ${URMA_TWO_HOSTS:-} ]]; then
  as_root=()
  [[ $(id -u) -eq 0 ]] || as_root=(--user --map-root-user)
  if [[ ${1:-} == --or-skip ]]; then
    shift
    unshare "${as_root[@]}" --net true 2>/dev/null || {
      echo 'SKIPPED: this user may not create network namespaces; run as root'
      exit 0
    }
  fi
  URMA_TWO_HOSTS=1 exec unshare "${as_root[@]}" --net -- "$0" "$@"
fi

directory=$(mktemp -d)
unshare --net -- sleep infinity &
other=$!
trap 'kill "${other}"; rm -rf "${directory}"' EXIT
# Until it is in a namespace of its own.
while [[ $(readlink "/proc/${other}/ns/net") == "$(readlink /proc/self/ns/net)" ]]; do :; done
there=(nsenter "--net=/proc/${other}/ns/net")

ip link add wire type veth peer name wire netns "${other}"
ip link set lo up
ip address add 10.99.0.1/24 dev wire
ip link set wire up
"${there[@]}" ip link set lo up
"${there[@]}" ip address add 10.99.0.2/24 dev wire
"${there[@]}" ip link set wire up
# The kernel takes up to a second to see that the cable is connected.
for side in "" "${there[*]}"; do
  until [[ $(${side} ip -brief link show wire up) == *' UP '* ]]; do :; done
done

export URMA_DEVICE=${URMA_DEVICE:-urma_net0} DEMO_ADDRESS=10.99.0.1
export DEMO_CLIENT="env URMA_RUNTIME_DIR=${directory} ${there[*]}"
"$@"
