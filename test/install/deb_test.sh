#!/bin/bash
# SPDX-License-Identifier: MIT
#
# The Debian packages that `./dev deb` makes of the build. Each has its files, debug information is
# separate, the symbols file lists the exports of the libraries, and the source package can be
# unpacked. They install with dpkg into a private root, a program is compiled and run against that,
# the tools run, and nothing is left after removal.
set -euo pipefail

for program in chrpath dh dh_python3 dpkg-buildpackage; do
  command -v "${program}" >/dev/null || { echo "SKIP: ${program} is not installed"; exit 0; }
done
/usr/bin/python3 -c 'import cffi' 2>/dev/null || { echo "SKIP: python3-cffi is not installed"; exit 0; }

source test/install/installed.sh
readonly out="${TEST_TMPDIR}/out" root="${TEST_TMPDIR}/root" unpacked="${TEST_TMPDIR}/unpacked"
export URMA_RUNTIME_DIR="${TEST_TMPDIR}/runtime"
if ! command -v lintian >/dev/null; then
  echo "lintian is not installed: packages not checked by it"
  mkdir "${TEST_TMPDIR}/none"
  ln -s /bin/true "${TEST_TMPDIR}/none/lintian"
  PATH="${PATH}:${TEST_TMPDIR}/none"
fi
dev_on_built deb "${out}"
triplet="$(dpkg-architecture -qDEB_HOST_MULTIARCH)"
readonly libdir="usr/lib/${triplet}"

fail() {
  echo "FAIL: $*"
  exit 1
}

# Prints the path of the package NAME.
package() { echo "${out}/$1"_*.deb; }

# Prints the files of the package NAME, except those that every package has.
files_of() {
  dpkg-deb -c "$(package "$1")" | awk '$1 !~ /^d/ { print substr($6, 3) }' |
    grep -vE "^usr/share/doc/$1/(copyright|changelog.gz)\$" | sort
}

# Expects the package NAME to have exactly the files on stdin.
expect_files() { diff <(sort) <(files_of "$1") || fail "the files of $1 (above)"; }

# Prints the manual pages of SECTION that exist as source files, as a package has them.
pages() {
  local page
  for page in docs/man/*."$1".md; do
    page="$(basename "${page}" .md)"
    echo "usr/share/man/man$1/${page}.gz"
  done
}

names="$(for file in "${out}"/*.deb; do dpkg-deb -f "${file}" Package; done | sort | xargs)"
[[ "${names}" == "libfabric-urma libfabric-urma-dbgsym liburma-dev liburma-rocm liburma-rocm-dbgsym liburma-tcp liburma-tcp-dbgsym liburma-verbs liburma-verbs-dbgsym \
liburma0 liburma0-dbgsym python3-urma urma-tools urma-tools-dbgsym" ]] || fail "packages: ${names}"

expect_files liburma0 < <(
  printf "${libdir}/%s\n" lib{tpsa,urma,urma_common}.so.0 urma/liburma-shm.so
  pages 7 | grep -v /fi_urma
)
[[ "$(files_of liburma0)" == */urma_errors.7.gz* ]] || fail "no urma_errors(7)"
expect_files libfabric-urma < <(
  echo "${libdir}/libfabric/liburma-fi.so"
  pages 7 | grep /fi_urma
)
expect_files liburma-verbs <<<"${libdir}/urma/liburma-verbs.so"
expect_files liburma-rocm <<<"${libdir}/urma/liburma-rocm.so"
expect_files liburma-tcp <<<"${libdir}/urma/liburma-bond.so
${libdir}/urma/liburma-tcp.so"
expect_files python3-urma < <(
  echo usr/lib/python3/dist-packages/urma/_abi.py
  (cd python/urma && printf 'usr/lib/python3/dist-packages/urma/%s\n' *.py py.typed)
  (cd python/examples && printf 'usr/share/doc/python3-urma/examples/%s\n' *.py)
)
expect_files urma-tools < <(
  echo "${libdir}/urma/urma_run.so"
  printf 'usr/bin/%s\n' urma_{admin,perftest,ping,run}
  pages 1
)
files_of liburma-dev >"${TEST_TMPDIR}/dev"
diff <(cd urma/include && printf '%s\n' *.h *.hpp | sort) \
  <(sed -n 's|^usr/include/\([^/]*\)$|\1|p' "${TEST_TMPDIR}/dev")
diff <(cd examples && ls -d *.* Makefile | sort) \
  <(sed -n 's|^usr/share/doc/liburma-dev/examples/||p' "${TEST_TMPDIR}/dev")
diff <(pages 3) <(pages 3 | grep -xFf - "${TEST_TMPDIR}/dev")
diff <(printf "${libdir}/%s\n" cmake/urma/urma-config{,-version}.cmake pkgconfig/urma.pc \
  lib{tpsa,urma,urma_common}.so | sort) \
  <(grep -v -e ^usr/include/ -e ^usr/share/man/man3/ -e ^usr/share/doc/ "${TEST_TMPDIR}/dev")

# Debug information must belong to the stripped files in the package.
mkdir "${root}"
for name in liburma0 liburma0-dbgsym; do dpkg-deb -x "$(package "${name}")" "${root}"; done
for library in "${root}/${libdir}"/*.so.0 "${root}/${libdir}"/urma/*; do
  id="$(readelf -n "${library}" | sed -n 's/.*Build ID: //p')"
  readelf -S "${library}" | grep debug_info >/dev/null && fail "${library##*/} is not stripped"
  readelf -S "${root}/usr/lib/debug/.build-id/${id::2}/${id:2}.debug" | grep debug_info >/dev/null ||
    fail "no debug information for ${library##*/}"
done

# The source package and its symbols file: a missing or additional symbol is detected.
dpkg-source -x "${out}"/*.dsc "${unpacked}" >/dev/null
[[ -x "${unpacked}/dev" && -x "${unpacked}/debian/rules" ]] || fail "the source package lacks ./dev or debian/rules"
cmp LICENSE "${unpacked}/LICENSE"
! sed -e '1,/^Copyright/d' -e '/./!d' -e 's/^/ /' LICENSE |
  grep -vxFf "${unpacked}/debian/copyright" ||
  fail "debian/copyright lacks these lines of LICENSE"
grep -qx "Copyright: $(sed -n 's/^Copyright (c) //p' LICENSE)" "${unpacked}/debian/copyright" ||
  fail "debian/copyright and LICENSE name different holders"

# The notices of the libraries that are compiled into the tools, whose headers name the holders.
mkdir "${TEST_TMPDIR}/tools_only"
dpkg-deb -x "$(package urma-tools)" "${TEST_TMPDIR}/tools_only"
readonly notices="${TEST_TMPDIR}/tools_only/usr/share/doc/urma-tools/copyright"
grep -rhoE 'Copyright \(c\) [-0-9]+, .*|SPDX-FileCopyrightText: [^<]*|Copyright \(c\) .* present, .*' \
  /usr/include/{CLI,nlohmann,fmt/format.h} |
  sed -E -e 's/^[^:]*\) |^[^:]*: //' -e 's/^[-0-9]+( - present)?,? *//' -e 's/ *$//' | sort -u \
  >"${TEST_TMPDIR}/holders"
(($(wc -l <"${TEST_TMPDIR}/holders") >= 4)) || fail "no holders in the headers of libraries"
while read -r holder; do
  grep -F -- "${holder}" "${notices}" >/dev/null || fail "the copyright of urma-tools lacks ${holder}"
done <"${TEST_TMPDIR}/holders"

symbols() {
  (cd "${unpacked}" && dpkg-gensymbols -q -c4 -v99 -pliburma0 "-P${root}" \
    "-e${root}/${libdir}/*.so.0" "-I$1" -O/dev/null)
}
readonly exported="${unpacked}/debian/liburma0.symbols"
symbols "${exported}" || fail "liburma0.symbols and the libraries differ"
grep -v ' urma_init@' "${exported}" >"${TEST_TMPDIR}/fewer"
! symbols "${TEST_TMPDIR}/fewer" 2>/dev/null || fail "a new symbol is not reported"
sed '/ urma_init@/{p;s/urma_init/urma_innit/}' "${exported}" >"${TEST_TMPDIR}/more"
! symbols "${TEST_TMPDIR}/more" 2>/dev/null || fail "a missing symbol is not reported"
rm -r "${root}"

mkdir -p "${root}/var/lib/dpkg/"{info,updates,triggers}
touch "${root}/var/lib/dpkg/"{status,available}
packaged() {
  dpkg --root="${root}" --log=/dev/null --force-not-root,depends,script-chrootless,bad-path "$@" \
    >"${TEST_TMPDIR}/dpkg.log" 2>&1 || { cat "${TEST_TMPDIR}/dpkg.log"; return 1; }
}
readonly installed=(libfabric-urma liburma-dev liburma-rocm liburma-tcp liburma-verbs urma-tools liburma0)
mapfile -t packages < <(for name in "${installed[@]}"; do package "${name}"; done)
packaged --no-triggers --install "${packages[@]}"

libraries="${root}/${libdir}"
export LD_LIBRARY_PATH="${libraries}" PKG_CONFIG_PATH="${libraries}/pkgconfig"
export PKG_CONFIG_SYSROOT_DIR="${root}" PKG_CONFIG_ALLOW_SYSTEM_LIBS=1
export PKG_CONFIG_ALLOW_SYSTEM_CFLAGS=1
cd "${TEST_TMPDIR}/source"
awk '$0 == "```c" { on = 1; next } /^```$/ { on = 0 } on' docs/guide/getting_started.md >hello.c
read -ra flags <<<"$(pkg-config --cflags --libs urma)"
cc -std=c11 -o hello hello.c "${flags[@]}"
status=0
./hello client || status=$?
((status == 1))
make --silent -f "${root}/usr/share/doc/urma/examples/Makefile" segment
"${root}/usr/bin/urma_admin" show --all | grep urma_shm0 >/dev/null
"${root}/usr/bin/urma_perftest" --help >/dev/null
"${root}/usr/bin/urma_ping" --help >/dev/null
[[ "$("${root}/usr/bin/urma_run" --way preload cat /sys/class/ubcore/urma_shm0/ubdev)" == urma_shm0 ]]

packaged --no-triggers --purge "${installed[@]}"
left="$(find "${root}" ! -type d ! -path '*/var/lib/dpkg/*')"
[[ -z "${left}" ]] || fail "left behind: ${left}"
