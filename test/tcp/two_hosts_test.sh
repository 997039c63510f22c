#!/bin/bash
# SPDX-License-Identifier: MIT
#
# two_hosts_test.sh ipv4|ipv6: the programs in PROGRAMS, with the peers of each test on another
# host, simulated by a network namespace. With ipv6 there are no other addresses.
set -euo pipefail

family=$1
[[ -n ${DEMO_CLIENT:-} ]] || exec tools/dev/two_hosts.sh --or-skip "$0" "$@"

other=${DEMO_CLIENT##*--net=}
if [[ ${family} == ipv6 ]]; then
  ip address flush dev wire scope global
  ip address add fd99::1/64 dev wire nodad
  nsenter "--net=${other}" ip address flush dev wire scope global
  nsenter "--net=${other}" ip address add fd99::2/64 dev wire nodad
fi

failed=0
for program in ${PROGRAMS}; do
  echo "== ${program}"
  URMA_PEER_NETWORK=${other} "${program}" --gtest_brief=1 || failed=1
done
exit "${failed}"
