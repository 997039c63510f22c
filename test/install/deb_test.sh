#!/bin/bash
# SPDX-License-Identifier: MIT
#
# The Debian packages that `./dev deb` makes, of what has been built: each file of the installation
# that belongs into one is in exactly one; they install with dpkg into a root of their own, a
# program is compiled and run against that, the tools run, and nothing is left when they are
# removed. What lintian says is looked at where it is installed.
set -euo pipefail

for program in chrpath dpkg-architecture dpkg-shlibdeps; do
  command -v "${program}" >/dev/null || { echo "SKIP: no ${program}"; exit 0; }
done

source test/install/installed.sh
readonly stage="${TEST_TMPDIR}/stage" out="${TEST_TMPDIR}/out" root="${TEST_TMPDIR}/root"
export URMA_RUNTIME_DIR="${TEST_TMPDIR}/runtime"
(DESTDIR="${stage}" install_built /usr)
cp -L lib/urma/{liburma-rocm,liburma-verbs,urma_run}.so "${stage}/usr/lib/urma/"
cp -L tools/{admin/urma_admin,perftest/urma_perftest,ping/urma_ping,run/urma_run} \
  "${stage}/usr/bin/"
chmod -R u+w "${stage}"

cd "${TEST_TMPDIR}/source"
mapfile -t packages < <(bash tools/dev/deb.sh "${stage}" "${out}")
names="$(for package in "${packages[@]}"; do dpkg-deb -f "${package}" Package; done | sort | xargs)"
[[ "${names}" == "liburma-dev liburma-rocm liburma-verbs liburma0 urma-tools" ]]

# All but the examples' programs, which are there as sources.
inside="$(for package in "${packages[@]}"; do dpkg-deb -c "${package}"; done |
  awk '$1 !~ /^d/ { print $6 }' | grep -v share/doc | sed -e 's|.*/||' -e 's|\.gz$||' | sort)"
outside="$(find "${stage}/usr" ! -type d ! -path '*/bin/segment' -printf '%f\n' | sort)"
diff <(echo "${outside}") <(echo "${inside}")

if command -v lintian >/dev/null; then
  lintian --fail-on error,warning --allow-root \
    --suppress-tags bogus-mail-host,bogus-mail-host-in-debian-changelog "${packages[@]}"
else
  echo "no lintian: not looked at by it"
fi

mkdir -p "${root}/var/lib/dpkg/"{info,updates,triggers}
touch "${root}/var/lib/dpkg/"{status,available}
packaged() {
  dpkg --root="${root}" --log=/dev/null --force-not-root,depends,script-chrootless,bad-path "$@" \
    >"${TEST_TMPDIR}/dpkg.log" 2>&1 || { cat "${TEST_TMPDIR}/dpkg.log"; return 1; }
}
packaged --no-triggers --install "${packages[@]}"

libraries="${root}/usr/lib/$(dpkg-architecture -qDEB_HOST_MULTIARCH)"
export LD_LIBRARY_PATH="${libraries}" PKG_CONFIG_PATH="${libraries}/pkgconfig"
export PKG_CONFIG_SYSROOT_DIR="${root}" PKG_CONFIG_ALLOW_SYSTEM_LIBS=1
export PKG_CONFIG_ALLOW_SYSTEM_CFLAGS=1
awk '$0 == "```c" { on = 1; next } /^```$/ { on = 0 } on' docs/getting_started.md >hello.c
read -ra flags <<<"$(pkg-config --cflags --libs urma)"
cc -std=c11 -o hello hello.c "${flags[@]}"
status=0
./hello client || status=$?
((status == 1))
"${root}/usr/bin/urma_admin" show --all | grep -q urma_shm0
"${root}/usr/bin/urma_perftest" --help >/dev/null
"${root}/usr/bin/urma_ping" --help >/dev/null
[[ "$("${root}/usr/bin/urma_run" --way preload cat /sys/class/ubcore/urma_shm0/ubdev)" == urma_shm0 ]]

packaged --no-triggers --purge liburma-dev liburma-rocm liburma-verbs urma-tools liburma0
left="$(find "${root}" ! -type d ! -path '*/var/lib/dpkg/*')"
[[ -z "${left}" ]] || { echo "left behind: ${left}"; exit 1; }
