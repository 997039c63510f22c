#!/bin/bash
# SPDX-License-Identifier: MIT
#
# The tarball that `./dev tarball` makes of the build: it has its files and no path of the machine
# that made it; unpacked and moved, its programs run, and others compile against it. Products of a
# plain build are packed too, and refused in the end.
#
# With the argument `portable` the products are those of --config=portable and must need glibc 2.30
# at most, and no libstdc++. If URMA_TEST_DEBOOTSTRAP is 1, the tarball is used in an older and in a
# newer Debian made by debootstrap (root, a mirror, minutes).
set -euo pipefail

command -v chrpath >/dev/null || { echo "SKIP: chrpath is not installed"; exit 0; }

source test/install/installed.sh
readonly out="${TEST_TMPDIR}/out" form="${1:-plain}"

fail() {
  echo "FAIL: $*"
  exit 1
}

status=0
dev_on_built tarball "${out}" >"${TEST_TMPDIR}/said" 2>&1 || status=$?
cat "${TEST_TMPDIR}/said"
if [[ "${form}" == portable ]]; then
  ((status == 0)) || fail "./dev tarball failed (above)"
else
  for need in "glibc 2.[0-9]*, newer than 2.30" libstdc++; do
    grep "liburma.so.0 needs .*${need}" "${TEST_TMPDIR}/said" >/dev/null ||
      fail "./dev tarball does not say that a plain build needs ${need}"
  done
  ((status != 0)) || fail "./dev tarball takes the products of a plain build"
fi
version="$(sed -n 's/^Version: //p' packaging/urma.pc.in)"
readonly name="liburma-${version}-linux-$(uname -m)"
tar -xz -C "${TEST_TMPDIR}" -f "${out}/${name}.tar.gz"
mkdir "${TEST_TMPDIR}/moved"
mv "${TEST_TMPDIR}/${name}" "${TEST_TMPDIR}/moved"
readonly unpacked="${TEST_TMPDIR}/moved/${name}" runtime="${TEST_TMPDIR}/runtime"

(cd "${unpacked}" && find . ! -type d ! -path './share/*' ! -path './include/*' | sort) \
  >"${TEST_TMPDIR}/files"
diff <(printf './%s\n' LICENSE README.md bin/urma_{admin,perftest,ping,run} \
  lib/cmake/urma/urma-config{,-version}.cmake lib/lib{tpsa,urma,urma_common}.so{,.0} \
  lib/libfabric/liburma-fi.so lib/pkgconfig/urma.pc \
  lib/urma/{liburma-{bond,rocm,shm,tcp,verbs},urma_run}.so | sort) "${TEST_TMPDIR}/files" ||
  fail "the files differ (above)"
for page in docs/man/*.md; do
  page="$(basename "${page}" .md)"
  [[ -e "${unpacked}/share/man/man${page##*.}/${page}" ]] || fail "no manual page ${page}"
done
for part in libcli11 libfmt liburing nlohmann-json3; do
  [[ -s "${unpacked}/share/doc/urma/licences/${part}" ]] || fail "no licence of ${part}"
done
diff <(cd urma/include && ls *.h *.hpp) <(cd "${unpacked}/include" && ls -d *.*)
! grep -rlF -e "${TEST_TMPDIR}" -e "$(readlink -f "${PWD}")" "${unpacked}" ||
  fail "paths of this machine are in these (above)"
! grep -E '[=-][IL]?/' "${unpacked}/lib/pkgconfig/urma.pc" || fail "a path in urma.pc (above)"
! grep @ "${unpacked}/README.md" || fail "placeholders in README.md (above)"
find "${unpacked}/bin" "${unpacked}/lib" -type f ! -path '*/cmake/*' ! -name '*.pc' -exec readelf -d {} + |
  sed -n 's/.*R.*PATH.*\[\(.*\)\]/\1/p' | tr : '\n' | sort -u >"${TEST_TMPDIR}/paths"
! grep -v '^$ORIGIN/' "${TEST_TMPDIR}/paths" || fail "search paths (above)"

# What is done with the folder $1, on any machine, by plain tools.
cat >"${TEST_TMPDIR}/use.sh" <<'END'
set -euo pipefail
folder="$1" examples="$1/share/doc/urma/examples"
PATH="${folder}/bin:${PATH}"
urma_admin show --all | grep urma_shm0 >/dev/null
urma_admin show providers
urma_admin show providers | grep -E '^shm +yes' >/dev/null
urma_admin show providers | grep -E '^tcp +yes' >/dev/null
# A provider throws, and the library catches it.
URMA_RUNTIME_DIR=/etc/passwd urma_admin show 2>&1 | grep 'provider shm does not start' >/dev/null
[[ "$(urma_run --way preload sh -c 'cd /sys/class/ubcore && test -d urma_shm0 && cat */ubdev')" == \
  *urma_shm0* ]]
urma_perftest write_lat -d urma_shm0 -n 100 --loopback
exec {responder}< <(exec urma_ping --listen)
read -r -u "${responder}" line
replies="$(urma_ping -c 3 -i 0.01 -W 60 "$(sed -E 's/.* at ([^,]*),.*/\1/' <<<"${line}")")"
echo "${replies}"
[[ "${replies}" == *' 3 received'* ]]
kill "$!"
"${examples}/demo.sh" "${examples}" | grep -E '^demo:|error'
END
env -i PATH=/usr/bin:/bin URMA_RUNTIME_DIR="${runtime}" DEMO_EXAMPLES='send_recv_polling segment_cc' \
  bash "${TEST_TMPDIR}/use.sh" "${unpacked}"

# What a compiler makes of the folder $1, in a folder of its own.
cat >"${TEST_TMPDIR}/compile.sh" <<'END'
set -euo pipefail
export PKG_CONFIG_PATH="$1/lib/pkgconfig"
work="$(mktemp -d)"
trap 'rm -rf "${work}"' EXIT
cd "${work}"
make --silent -f "$1/share/doc/urma/examples/Makefile" LDFLAGS="-Wl,-rpath,$1/lib" segment
DEMO_EXAMPLES=segment "$1/share/doc/urma/examples/demo.sh" "${PWD}" | tail -n 1
END
env -i PATH=/usr/bin:/bin bash "${TEST_TMPDIR}/compile.sh" "${unpacked}"

[[ "${form}" == portable ]] || exit 0
[[ "${URMA_TEST_DEBOOTSTRAP:-0}" == 1 ]] ||
  { echo "not used in other releases: that takes minutes and the network; set URMA_TEST_DEBOOTSTRAP=1"; exit 0; }
((EUID == 0)) || fail "debootstrap and chroot need root"

# Runs a command in the root file system ROOT. Mounts and processes end with it.
inside() {
  # shellcheck disable=SC2016
  unshare --mount --pid --fork --kill-child bash -c '
    root="$1" && shift
    mount -t proc proc "${root}/proc" && mount --rbind /dev "${root}/dev" &&
      mount --rbind /sys "${root}/sys" || exit
    exec chroot "${root}" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 \
      DEBIAN_FRONTEND=noninteractive URMA_RUNTIME_DIR=/tmp/urma "$@"' inside "$@"
}

# What fails is shown.
quietly() { "$@" >"${TEST_TMPDIR}/log" 2>&1 || { tail -n 40 "${TEST_TMPDIR}/log"; fail "$* (above)"; }; }

mirror="$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | head -n 1)"
for release in bullseye trixie; do
  root="${TEST_TMPDIR}/${release}"
  quietly debootstrap --variant=minbase "${release}" "${root}" "${mirror}"
  cp -a /etc/apt/apt.conf.d/. "${root}/etc/apt/apt.conf.d/"
  cp -L /etc/resolv.conf "${root}/etc/resolv.conf"
  quietly inside "${root}" apt-get -qq -y --no-install-recommends install gcc libc6-dev make pkg-config
  rm "${root}"/usr/lib/*/libstdc++.so.6*
  tar -xz -C "${root}/opt" -f "${out}/${name}.tar.gz"
  cp "${TEST_TMPDIR}"/{compile,use}.sh "${root}/opt"
  quietly inside "${root}" bash -c "bash /opt/use.sh /opt/${name} && bash /opt/compile.sh /opt/${name}"
  cat "${TEST_TMPDIR}/log"
  grep 'liburma-verbs.so *no .*cannot open shared object' "${TEST_TMPDIR}/log" >/dev/null ||
    fail "verbs is loaded in ${release} without its libraries"
  echo "used in ${release}: $(inside "${root}" ldd --version | sed -n 1p)"
done
