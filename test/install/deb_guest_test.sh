#!/bin/bash
# SPDX-License-Identifier: MIT
#
# The Debian packages in a Debian of their own: made by debootstrap, where apt installs them with
# what they depend on, the program of the getting-started page is compiled and talks to itself, and
# nothing is left when they are purged. Takes minutes, root and a mirror: only where
# URMA_TEST_DEBOOTSTRAP is 1.
set -euo pipefail

[[ "${URMA_TEST_DEBOOTSTRAP:-0}" == 1 ]] || { echo "SKIP: URMA_TEST_DEBOOTSTRAP is not 1"; exit 0; }
((EUID == 0)) || { echo "FAIL: debootstrap and chroot need root"; exit 1; }
for program in chrpath debootstrap dh lintian; do
  command -v "${program}" >/dev/null || { echo "FAIL: no ${program}"; exit 1; }
done

source test/install/installed.sh
readonly out="${TEST_TMPDIR}/out" root="${TEST_TMPDIR}/root"
dev_on_built deb "${out}"
cd "${TEST_TMPDIR}/source"
mapfile -t packages < <(printf '%s\n' "${out}"/*.deb | grep -v dbgsym)

mirror="$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | head -n 1)"
debootstrap --variant=minbase bookworm "${root}" "${mirror}" >"${TEST_TMPDIR}/debootstrap.log" \
  2>&1 || { tail "${TEST_TMPDIR}/debootstrap.log"; exit 1; }
mount -t proc proc "${root}/proc"
trap 'umount "${root}/proc"' EXIT
cp -a /etc/apt/apt.conf.d/. "${root}/etc/apt/apt.conf.d/"
cp /etc/resolv.conf "${root}/etc/resolv.conf"

inside() {
  chroot "${root}" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 \
    DEBIAN_FRONTEND=noninteractive URMA_RUNTIME_DIR=/tmp/urma "$@"
}
apt_inside() {
  inside apt-get -qq -y --no-install-recommends "$@" >"${TEST_TMPDIR}/apt.log" 2>&1 ||
    { tail "${TEST_TMPDIR}/apt.log"; return 1; }
}
apt_inside update
apt_inside install gcc libc6-dev pkg-config
# All programs and libraries, and what bears our name: other packages leave copies of /etc/group.
files() {
  (cd "${root}" && { find usr ! -type d ! -path '*/__pycache__/*'; find etc var -name '*urma*'; } |
    sort)
}
files >"${TEST_TMPDIR}/before"

mkdir "${root}/packages"
cp "${packages[@]}" "${root}/packages"
mapfile -t names < <(cd "${root}" && printf '/%s\n' packages/*.deb)
apt_inside install "${names[@]}"
rm -r "${root}/packages"
block() { awk -v mark="\`\`\`$1" '$0 == mark { on = 1; next } /^```$/ { on = 0 } on' "$2"; }
block c docs/guide/getting_started.md >"${root}/tmp/hello.c"
inside sh -euc "cd /tmp; $(block build docs/guide/getting_started.md)"
inside urma_admin show --all | grep urma_shm0 >/dev/null
inside urma_admin show providers | grep liburma-verbs >/dev/null
mkfifo "${TEST_TMPDIR}/told"
inside timeout 60 /tmp/hello server >"${TEST_TMPDIR}/told" &
server=$!
exec 3<"${TEST_TMPDIR}/told"
read -r line <&3
[[ "${line}" == ready ]]
[[ "$(inside timeout 60 /tmp/hello client)" == sent ]]
[[ "$(cat <&3)" == "received 6 bytes: hello" ]]
wait "${server}"

mapfile -t names < <(for package in "${packages[@]}"; do dpkg-deb -f "${package}" Package; done)
apt_inside purge "${names[@]}"
apt_inside autoremove --purge
files >"${TEST_TMPDIR}/after"
left="$(comm -13 "${TEST_TMPDIR}/before" "${TEST_TMPDIR}/after")"
[[ -z "${left}" ]] || { echo "left behind: ${left}"; exit 1; }
echo "installed, used and purged: ${names[*]}"
