#!/bin/bash
# SPDX-License-Identifier: MIT
#
# The tests of several processes in PROGRAMS over tcp, all on this host: in a network of their own,
# if this user may have one, where no other test takes their ids and ports.
set -euo pipefail

if [[ -z ${IN_OWN_NETWORK:-} ]] && unshare --net ip link set lo up 2>/dev/null; then
  IN_OWN_NETWORK=1 exec unshare --net "$0"
fi
[[ -z ${IN_OWN_NETWORK:-} ]] || ip link set lo up

failed=0
for program in ${PROGRAMS}; do
  echo "== ${program}"
  "${program}" --gtest_brief=1 || failed=1
done
exit "${failed}"
