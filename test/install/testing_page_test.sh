#!/bin/bash
# SPDX-License-Identifier: MIT
#
# docs/guide/testing_your_program.md against an installation: each command prints what the page
# says, and the steps of the jobs that build and test succeed. deb_guest_test runs the steps that
# install packages.
set -euo pipefail

source test/install/installed.sh
readonly prefix="${TEST_TMPDIR}/installed" page="${PWD}/docs/guide/testing_your_program.md"
readonly read_page="${PWD}/test/install/testing_page.py" work="${TEST_TMPDIR}/work"
for program in cmake make valgrind; do
  command -v "${program}" >/dev/null || { echo "SKIP: ${program} is not installed"; exit 0; }
done
install_built "${prefix}"
export PATH="${prefix}/bin:${PATH}" LD_LIBRARY_PATH="${prefix}/lib"
export PKG_CONFIG_PATH="${prefix}/lib/pkgconfig" CMAKE_PREFIX_PATH="${prefix}"
# The thread sanitizer cannot place its shadow memory under kernels that randomise widely.
plain=()
! setarch -R true 2>/dev/null || plain=(setarch -R)

make_project() {
  mkdir "$1"
  cd "$1"
  "${read_page}" "${page}" block c >probe.c
  "${read_page}" "${page}" block wrap >wrap.c
  "${read_page}" "${page}" block make >Makefile
  "${read_page}" "${page}" block cmake >CMakeLists.txt
}

make_project "${work}"
"${plain[@]}" "${read_page}" "${page}" console

if unshare --user --map-current-user --mount --pid --fork --net --ipc --uts true 2>/dev/null; then
  "${read_page}" "${page}" block walls >walls.sh
  setsid timeout 120 sh -eu walls.sh & walls="$!"
  wait "${walls}"
  for ((i = 0; i < 100; ++i)); do
    left="$(pgrep -a -s "${walls}" || true)"
    [[ -n "${left}" ]] || break
    read -rt 0.1 <> <(:) || true
  done
  [[ -z "${left}" ]] || { echo "FAIL: the containers leave behind: ${left}"; exit 1; }
else
  echo "SKIP: containers: this process may not create namespaces; run as root"
fi

if /usr/bin/python3 -c 'import yaml' 2>/dev/null; then
  for service in github gitlab; do
    [[ "${service}" == github ]] && names=(Build Test) || names=(script)
    make_project "${TEST_TMPDIR}/${service}"
    /usr/bin/python3 "${read_page}" "${page}" steps "${service}" "${names[@]}" >steps.sh
    sh -eux steps.sh >steps.log 2>&1 || { cat steps.log; exit 1; }
  done
else
  echo "SKIP: jobs: python3-yaml is not installed"
fi
