#!/bin/bash
#
# Runs in a guest: loads the driver of AMD's GPUs on a machine without any. /dev/kfd then lists the
# processors only. Fails, and says what is missing, if it does not come up.

set -euo pipefail

readonly POLL_SECONDS=0.05
readonly LIMIT_SECONDS=60
readonly NODES=/sys/class/kfd/kfd/topology/nodes

fail() {
  echo "kfd: $*" >&2
  exit 1
}

modprobe amdgpu || fail "cannot load the module amdgpu"
until [[ -e /dev/kfd && -e "${NODES}/0/gpu_id" ]]; do
  ((SECONDS < LIMIT_SECONDS)) || fail "there is no /dev/kfd, or no ${NODES}/0"
  sleep "${POLL_SECONDS}"
done
[[ "$(cat "${NODES}"/*/gpu_id)" == 0 ]] || fail "this machine has a GPU: $(ls "${NODES}")"
