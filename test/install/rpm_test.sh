#!/bin/bash
# SPDX-License-Identifier: MIT
#
# The rpm packages that `./dev rpm` makes of the build. Each has its files, no file is in two of
# them, rpm finds their dependencies on each other and on libraries, and the unpacked tools run. The
# version is that of the other packages. The source package, built by its spec with CMake, gives the
# same: the existing build replaces what CMake would compile. The long form (URMA_SOAK, `./dev soak
# rpm`) compiles it.
set -euo pipefail

for program in chrpath rpm2archive rpmbuild; do
  command -v "${program}" >/dev/null || { echo "SKIP: ${program} is not installed"; exit 0; }
done

source test/install/installed.sh
readonly out="${TEST_TMPDIR}/out" root="${TEST_TMPDIR}/root"
add_cmake_sources
dev_on_built rpm "${out}"
libdir="$(rpm --eval '%{_libdir}')"
readonly libdir
[[ "$(sed -n 's/^Version: *//p' packaging/liburma.spec)" == \
  "$(sed -n 's/^Version: *//p' packaging/urma.pc.in)" ]]

fail() {
  echo "FAIL: $*"
  exit 1
}

# Prints the path of the package NAME.
package() { echo "${2:-${out}}/$1"-[0-9]*."$(uname -m)".rpm; }

# Prints the files of the package NAME, except build ids and folders, with manual pages
# uncompressed.
files_of() {
  rpm -qp --qf '[%{FILEMODES:perms} %{FILENAMES}\n]' "$(package "$@")" |
    sed -nE -e 's/\.gz$//' -e '/\.build-id|licenses/!s/^[^d][^ ]* //p' | sort
}

# Expects the package NAME to have exactly the files on stdin.
expect_files() { diff <(sort) <(files_of "$1") || fail "the files of $1 (above)"; }

# Expects the package NAME to require NEED, as named by rpm.
expect_need() {
  rpm -qp --requires "$(package "$1")" >"${TEST_TMPDIR}/needs"
  grep -qxF -- "$2" "${TEST_TMPDIR}/needs" || fail "$1 does not need $2"
}

# Prints the manual pages of SECTION that exist as source files.
pages() {
  local page
  for page in docs/man/*."$1".md; do echo "/usr/share/man/man$1/$(basename "${page}" .md)"; done
}

version="$(sed -n 's/^Version: //p' packaging/urma.pc.in)-1"
readonly packages=(libfabric-urma liburma liburma-devel liburma-rocm liburma-tcp liburma-verbs urma-tools)
diff <(printf '%s\n' "${packages[@]}") \
  <(rpm -qp --qf '%{NAME}\n' "${out}"/*."$(uname -m)".rpm | sort) || fail "the packages differ (above)"
[[ -e "${out}/liburma-${version}.src.rpm" ]] || fail "no source package"

expect_files liburma < <(
  printf "${libdir}/%s\n" lib{tpsa,urma,urma_common}.so.0 urma/liburma-shm.so
  pages 7 | grep -v /fi_urma
)
expect_files liburma-verbs <<<"${libdir}/urma/liburma-verbs.so"
expect_files liburma-rocm <<<"${libdir}/urma/liburma-rocm.so"
expect_files liburma-tcp <<<"${libdir}/urma/liburma-bond.so
${libdir}/urma/liburma-tcp.so"
expect_files libfabric-urma < <(
  echo "${libdir}/libfabric/liburma-fi.so"
  pages 7 | grep /fi_urma
)
expect_files urma-tools < <(
  echo "${libdir}/urma/urma_run.so"
  printf '/usr/bin/%s\n' urma_{admin,perftest,ping,run}
  pages 1
)
files_of liburma-devel >"${TEST_TMPDIR}/devel"
diff <(cd examples && ls -d *.* Makefile | sort) \
  <(sed -n 's|^/usr/share/doc/urma/examples/||p' "${TEST_TMPDIR}/devel") || fail "the examples differ (above)"
diff <(pages 3) <(pages 3 | grep -xFf - "${TEST_TMPDIR}/devel") || fail "manual pages are missing (above)"
[[ -z "$(for name in "${packages[@]}"; do files_of "${name}"; done | sort | uniq -d)" ]] ||
  fail "a file is in two packages"

rpm -qpl "$(package urma-tools)" | grep -x '/usr/share/licenses/urma-tools.*/copyright' >/dev/null ||
  fail "urma-tools lacks the notices of the libraries that are compiled in"

# A folder of no package would stay when its files go.
rpm -qp --qf '[%{FILEMODES:perms} %{FILENAMES}\n]' "${out}"/*."$(uname -m)".rpm \
  >"${TEST_TMPDIR}/packaged"
sed -n 's/^d[^ ]* //p' "${TEST_TMPDIR}/packaged" | sort -u >"${TEST_TMPDIR}/folders"
printf '%s\n' "${libdir}"{,/cmake,/pkgconfig} /usr/{bin,include,share/{doc,licenses,man/man{1,3,7}}} \
  /usr/lib{,/.build-id} | sort -u >"${TEST_TMPDIR}/of_system"
ownerless="$(sed -e 's/^[^ ]* //' -e 's|/[^/]*$||' "${TEST_TMPDIR}/packaged" | sort -u |
  grep -vxFf "${TEST_TMPDIR}/folders" | grep -vxFf "${TEST_TMPDIR}/of_system" || true)"
[[ -z "${ownerless}" ]] || fail "folders of no package: ${ownerless}"

for name in libfabric-urma liburma-{devel,rocm,tcp,verbs} urma-tools; do
  expect_need "${name}" "$(rpm --eval 'liburma%{?_isa}') = ${version}"
done
mark="$(rpm --eval '%{?__isa_bits:(%{__isa_bits}bit)}')"
expect_need urma-tools "liburma.so.0(URMA_1.0)${mark}"
expect_need liburma-verbs "libibverbs.so.1()${mark}"
expect_need liburma-verbs "librdmacm.so.1()${mark}"
expect_need libfabric-urma "libfabric.so.1()${mark}"
! rpm -qp --requires "$(package liburma)" | grep -E 'ibverbs|hsa|fabric|ssl|uring' ||
  fail "liburma needs libraries of providers"

mkdir "${root}"
for name in "${packages[@]}"; do
  rpm2archive - <"$(package "${name}")" | tar -xz -C "${root}"
done
export URMA_RUNTIME_DIR="${TEST_TMPDIR}/runtime" LD_LIBRARY_PATH="${root}${libdir}"
[[ -z "$(find "${root}${libdir}" "${root}/usr/bin" -type f -exec readelf -d {} + 2>/dev/null |
  grep -E 'RPATH|RUNPATH')" ]] || fail "a package has an RPATH or RUNPATH"
"${root}/usr/bin/urma_admin" show --all | grep urma_shm0 >/dev/null
"${root}/usr/bin/urma_admin" show providers | grep liburma-verbs >/dev/null
"${root}/usr/bin/urma_ping" --help >/dev/null

readonly again="${TEST_TMPDIR}/again" tools="${TEST_TMPDIR}/bin"
if [[ -z "${URMA_SOAK:-}" ]]; then
  mkdir "${tools}"
  cat >"${tools}/cmake" <<END
#!/bin/bash
[[ "\$1" == --build ]] || exec "$(command -v cmake)" "\$@"
"$(command -v cmake)" --build "\$2" --target manual
cp -r "${root}/usr/"* "\$2"
END
  chmod +x "${tools}/cmake"
  # The programs of the examples are in no package.
  cp -L $(find examples -maxdepth 1 ! -name '*.*' ! -name Makefile -type l) \
    "${root}/usr/share/doc/urma/examples"
fi
PATH="${tools}:${PATH}" rpmbuild --rebuild --nodeps --define "_topdir ${again}" \
  "${out}/liburma-${version}.src.rpm" >"${TEST_TMPDIR}/log" 2>&1 ||
  { tail -n 40 "${TEST_TMPDIR}/log"; fail "rpmbuild --rebuild failed (above)"; }
for name in "${packages[@]}"; do
  diff <(files_of "${name}") <(files_of "${name}" "${again}/RPMS/$(uname -m)") ||
    fail "the files of ${name} and those of CMake (>) differ"
done

# Nothing of a part that is left out is in the packages of the others.
# rpmbuild makes these links anew; those of what is left out would be in no package.
rm -rf "${root}/usr/lib/.build-id"
readonly fewer="${TEST_TMPDIR}/fewer"
rebuild_without() {
  rm -rf "${fewer}"
  rpmbuild --rebuild --nodeps "${@/#/--without=}" --define "_topdir ${fewer}" \
    --define "urma_stage ${root}" "${out}/liburma-${version}.src.rpm" >"${TEST_TMPDIR}/log" 2>&1 ||
    { tail -n 40 "${TEST_TMPDIR}/log"; fail "rpmbuild without $* failed (above)"; }
  rpm -qpl "${fewer}"/RPMS/*/*.rpm >"${TEST_TMPDIR}/packaged"
}
rebuild_without rocm tcp libfabric
diff <(printf '%s\n' liburma liburma-devel liburma-verbs urma-tools) \
  <(rpm -qp --qf '%{NAME}\n' "${fewer}"/RPMS/*/*.rpm | sort) || fail "the packages differ (above)"
! grep -E 'liburma-(rocm|tcp|bond|fi)\.|urma_(tcp|bonding)|fi_urma' "${TEST_TMPDIR}/packaged" ||
  fail "files of parts that are left out (above)"
rebuild_without manual
! grep /man/ "${TEST_TMPDIR}/packaged" || fail "a manual that is left out (above)"
echo "made, unpacked and made again: ${packages[*]}"
