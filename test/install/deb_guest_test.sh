#!/bin/bash
# SPDX-License-Identifier: MIT
#
# The Debian packages in a separate Debian made by debootstrap: apt installs them with their
# dependencies, the programs of the getting-started page and of the Python page talk, and nothing is
# left after a purge. Then the jobs of docs/guide/testing_your_program.md, from the install step on.
# Takes minutes, root and a mirror: only if URMA_TEST_DEBOOTSTRAP is 1.
set -euo pipefail

[[ "${URMA_TEST_DEBOOTSTRAP:-0}" == 1 ]] || { echo "SKIP: takes minutes and the network; set URMA_TEST_DEBOOTSTRAP=1"; exit 0; }
((EUID == 0)) || { echo "FAIL: debootstrap and chroot need root"; exit 1; }
for program in chrpath debootstrap dh lintian; do
  command -v "${program}" >/dev/null || { echo "FAIL: ${program} is not installed"; exit 1; }
done

source test/install/installed.sh
readonly out="${TEST_TMPDIR}/out" root="${TEST_TMPDIR}/root"
readonly read_page="${PWD}/test/install/testing_page.py"
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
# All programs and libraries, and everything with our name: other packages leave copies of
# /etc/group.
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

block python docs/guide/python.md >"${root}/tmp/hello.py"
inside timeout 60 python3 /tmp/hello.py server >"${TEST_TMPDIR}/told" &
server=$!
exec 3<"${TEST_TMPDIR}/told"
read -r line <&3
[[ "$(inside timeout 60 python3 /tmp/hello.py client)" == sent ]]
[[ "$(cat <&3)" == "received 5 bytes: hello" ]]
wait "${server}"

mapfile -t names < <(for package in "${packages[@]}"; do dpkg-deb -f "${package}" Package; done)
apt_inside purge "${names[@]}"
apt_inside autoremove --purge
files >"${TEST_TMPDIR}/after"
left="$(comm -13 "${TEST_TMPDIR}/before" "${TEST_TMPDIR}/after")"
[[ -z "${left}" ]] || { echo "left behind: ${left}"; exit 1; }
echo "installed, used and purged: ${names[*]}"

for service in github gitlab; do
  [[ "${service}" == github ]] && steps=(Install Build Test) || steps=(before_script script)
  project="${root}/tmp/${service}"
  mkdir -p "${project}/packages"
  cp "${packages[@]}" "${project}/packages"
  "${read_page}" docs/guide/testing_your_program.md block c >"${project}/probe.c"
  "${read_page}" docs/guide/testing_your_program.md block make >"${project}/Makefile"
  "${read_page}" docs/guide/testing_your_program.md steps "${service}" "${steps[@]}" \
    >"${project}/steps.sh"
  inside sh -euxc "cd /tmp/${service}; . ./steps.sh" >"${TEST_TMPDIR}/steps.log" 2>&1 ||
    { tail -n 40 "${TEST_TMPDIR}/steps.log"; exit 1; }
  inside apt-get -qq -y purge "${names[@]}" >"${TEST_TMPDIR}/apt.log" 2>&1
  echo "the job for ${service}: green"
done
