#!/bin/bash
# SPDX-License-Identifier: MIT
#
# The container image of packaging/container/Dockerfile, made by podman from the tarball and a Debian
# made by debootstrap. Two containers that share a volume run urma_ping and the examples over shared
# memory. Takes minutes, root, podman, a mirror and the products of --config=portable: only with the
# argument `portable`, and if URMA_TEST_DEBOOTSTRAP is 1. Skipped where containers cannot be started.
set -euo pipefail

skip() {
  echo "SKIP: $*"
  exit 0
}
fail() {
  echo "FAIL: $*"
  exit 1
}

[[ "${1:-plain}" == portable ]] || skip "takes the products of --config=portable"
[[ "${URMA_TEST_DEBOOTSTRAP:-0}" == 1 ]] || skip "takes minutes and the network; set URMA_TEST_DEBOOTSTRAP=1"
((EUID == 0)) || fail "debootstrap needs root"
for program in chrpath debootstrap; do
  command -v "${program}" >/dev/null || fail "${program} is not installed"
done
command -v podman >/dev/null || skip "podman is not installed"
# crun takes one version of cgroups, not both.
if [[ -z "${URMA_TEST_UNSHARED:-}" ]]; then
  why="$(unshare --mount true 2>&1)" || skip "containers cannot be started here: ${why}"
  URMA_TEST_UNSHARED=1 exec unshare --mount -- "$0" "$@"
fi
! mountpoint -q /sys/fs/cgroup/unified || umount /sys/fs/cgroup/unified

source test/install/installed.sh
readonly out="${TEST_TMPDIR}/out" root="${TEST_TMPDIR}/root" store="${TEST_TMPDIR}/store"
quietly() { "$@" >"${TEST_TMPDIR}/log" 2>&1 || { tail -n 40 "${TEST_TMPDIR}/log"; fail "$* (above)"; }; }
# podman takes a short path only.
state="$(mktemp -d)"
readonly state
readonly podman=(podman --root "${store}" --runroot "${state}" --cgroup-manager cgroupfs)
# No limit above those of this test, which may not raise them.
readonly limits=(--ulimit nofile=4096:4096 --ulimit nproc=4096:4096)
trap '"${podman[@]}" rm --all --force >/dev/null; umount "${store}/overlay" "${state}" 2>/dev/null || true
  rm -rf "${state}"' EXIT

quietly dev_on_built tarball "${out}"
mirror="$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | head -n 1)"
# shellcheck source=/dev/null
release="$(. /etc/os-release && echo "${VERSION_CODENAME}")"
quietly debootstrap --variant=minbase "${release}" "${root}" "${mirror}"
tar -c -C "${root}" . | quietly "${podman[@]}" import - localhost/debian
readonly start=("${podman[@]}" run --rm --cgroups disabled "${limits[@]}")
why="$("${start[@]}" --network none localhost/debian true 2>&1)" ||
  skip "containers cannot be started here: ${why}"
quietly "${podman[@]}" build --isolation chroot "${limits[@]}" --build-arg BASE=localhost/debian \
  -t liburma -f packaging/container/Dockerfile "${out}"
"${podman[@]}" images

readonly run=("${start[@]}" -v bus:/run/urma-bus)
"${run[@]}" --network none liburma | grep urma_shm0
exec {responder}< <("${run[@]}" --network none --name responder liburma urma_ping --listen)
read -r -u "${responder}" line
echo "${line}"
replies="$("${run[@]}" --network none liburma \
  urma_ping -c 3 -i 0.01 -W 60 "$(sed -E 's/.* at ([^,]*),.*/\1/' <<<"${line}")")"
echo "${replies}"
[[ "${replies}" == *' 3 received'* ]] || fail "no replies"
"${podman[@]}" stop responder >/dev/null

# The examples tell their peer a number over TCP.
DEMO_SERVER="${run[*]} --network host liburma" DEMO_CLIENT="${run[*]} --network host liburma" \
  examples/demo.sh /usr/local/share/doc/urma/examples "${TEST_TMPDIR}"
