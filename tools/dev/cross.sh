#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Builds the tree for another architecture, with this distribution's cross compiler and the
# architecture's own packages of this release, and runs programs of it under user emulation.
#
#     cross.sh ARCH bazel COMMAND [ARGUMENT...]   Bazel for ARCH, in an output tree of its own
#     cross.sh ARCH emulate PROGRAM [ARGUMENT...] PROGRAM, which may start others of ARCH
#     cross.sh ARCH why-not                       why nothing of ARCH can run here; empty if it can
#     cross.sh ARCH root                          the folder with the packages of ARCH
#
# The packages lie unpacked in a folder, kept in ${URMA_DISTRO_CACHE:-~/.cache/urma-distro}; none
# of them is installed on this machine. Root only: debootstrap and the kernel's table of emulators
# need it.

set -euo pipefail

cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."

# What the products and the tests are compiled against.
readonly PACKAGES=(
  ibverbs-providers libbenchmark-dev libc6-dev libcli11-dev libfabric-dev libfmt-dev libgmock-dev
  libgtest-dev libhsa-runtime-dev libibverbs-dev librdmacm-dev libssl-dev liburing-dev
  nlohmann-json3-dev valgrind
)
readonly FORMATS=/proc/sys/fs/binfmt_misc

die() {
  echo "dev: $*" >&2
  exit 1
}

# Links that begin at the root of the file system would leave the folder $1.
keep_links_within() {
  local folder="$1" link target
  while IFS= read -r -d '' link; do
    target="${folder}$(readlink "${link}")"
    [[ ! -e "${target}" ]] || ln -sfn --relative "${target}" "${link}"
  done < <(find "${folder}" -type l -lname '/*' -print0)
}

# Adds the package file $2 to dpkg's data in the folder $1, for dpkg-shlibdeps: which package has a
# library, and what it says of it. The names of the files are those that they will have here.
describe() {
  local made="$1" data="$1/var/lib/dpkg" fields name
  fields="$(dpkg-deb --field "$2")"
  name="$(sed -n 's/^Package: //p' <<<"${fields}")"
  ! grep -qx 'Multi-Arch: same' <<<"${fields}" || name+=":${debian_arch}"
  printf '%s\nStatus: install ok installed\n\n' "${fields}" >>"${data}/status"
  dpkg-deb --fsys-tarfile "$2" | tar -t | sed -e 's|^\.||' -e 's|/$||' -e "s|^|${root}|" \
    >"${data}/info/${name}.list"
  dpkg-deb --control "$2" "${made}/control"
  for fields in symbols shlibs; do
    [[ ! -e "${made}/control/${fields}" ]] ||
      mv "${made}/control/${fields}" "${data}/info/${name}.${fields}"
  done
  rm -r "${made}/control"
}

# Unpacks the packages of ARCH of this release in the folder $1, and adds what Bazel needs: a
# compiler that looks there alone, and the libraries as a repository.
make_root() {
  local made="$1" source release package
  source="$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | head -n 1)"
  # shellcheck source=/dev/null
  release="$(. /etc/os-release && echo "${VERSION_CODENAME}")"
  echo "dev: making ${made} (some 320 MiB)" >&2
  rm -rf "${made}.part"
  mkdir -p "${made}.part"
  debootstrap --arch="${debian_arch}" --variant=minbase --download-only \
    --include="$(IFS=, && echo "${PACKAGES[*]}")" "${release}" "${made}.part" "${source}" \
    >"${made}.log" 2>&1 ||
    { tail -n 5 "${made}.log" >&2; die "debootstrap for ${debian_arch} failed; see ${made}.log"; }
  for package in "${made}.part"/var/cache/apt/archives/*.deb; do
    dpkg-deb --extract "${package}" "${made}.part"
  done
  rm -rf "${made}.part/var/lib/dpkg"
  mkdir -p "${made}.part/var/lib/dpkg/info"
  echo 1 >"${made}.part/var/lib/dpkg/info/format"
  for package in "${made}.part"/var/cache/apt/archives/*.deb; do
    describe "${made}.part" "${package}"
  done
  rm -rf "${made}.part"/var/cache/apt/archives
  keep_links_within "${made}.part"
  printf '#!/bin/sh\nexec /usr/bin/%s-gcc --sysroot=%s "$@"\n' "${triplet}" "${made}" \
    >"${made}.part/cross-gcc"
  chmod +x "${made}.part/cross-gcc"
  echo 'workspace(name = "system")' >"${made}.part/usr/WORKSPACE"
  rm -rf "${made}"
  mv "${made}.part" "${made}"
}

run_bazel() {
  local command="$1" tool tools=() status=0 output
  shift
  output="$(readlink bazel-out || true)"
  for tool in gcc-ar:AR ld:LD nm:NM objcopy:OBJCOPY objdump:OBJDUMP strip:STRIP; do
    tools+=("--repo_env=${tool#*:}=/usr/bin/${triplet}-${tool%:*}")
  done
  cp third_party/system/system.BUILD "${root}/usr/BUILD.bazel"
  # Links of its own: bazel-bin stays on the build for this machine. Emulation is slow, and the
  # stack of an emulated program does not grow with its limit, which tests raise.
  bazel --output_base="${root}.bazel" "${command}" --symlink_prefix="bazel-${arch}-" \
    --repo_env=CC="${root}/cross-gcc" "${tools[@]}" --override_repository=system="${root}/usr" \
    --test_timeout=180,600,1800,3600 --test_env=QEMU_LD_PREFIX="${root}" \
    --test_env=QEMU_STACK_SIZE=67108864 --test_env=QEMU_PAGESIZE --test_env=CC="${root}/cross-gcc" \
    --test_env=CXX="${root}/cross-gcc" "$@" || status=$?
  # It leads to the tree once more, and //... of the build for this machine would hold both.
  rm -f "bazel-${arch}-${PWD##*/}"
  # Bazel gives this one the same name for every build.
  if [[ -n "${output}" ]]; then ln -sfn "${output}" bazel-out; else rm -f bazel-out; fi
  exit "${status}"
}

# Why the kernel does not start a program of ARCH.
why_not() {
  [[ -e "${FORMATS}/register" ]] || mount -t binfmt_misc binfmt_misc "${FORMATS}" 2>/dev/null || {
    echo "the kernel has no binfmt_misc, or does not let it be mounted"
    return
  }
  [[ -e "${FORMATS}/qemu-${arch}" ]] ||
    cat "/usr/lib/binfmt.d/qemu-${arch}.conf" 2>/dev/null >"${FORMATS}/register" ||
    echo "the kernel does not take qemu-${arch} as an interpreter"
}

emulate() {
  local reason
  reason="$(why_not)"
  [[ -z "${reason}" ]] || die "nothing of ${arch} runs here: ${reason}"
  QEMU_LD_PREFIX="${root}" exec "$@"
}

[[ "$#" -ge 2 ]] || die "usage: cross.sh ARCH bazel|emulate|root|why-not [ARGUMENT...]"
readonly arch="$1"
case "${arch}" in
  aarch64) readonly debian_arch=arm64 ;;
  *) die "cross.sh: '${arch}' is not supported; aarch64 is" ;;
esac
readonly triplet="${arch}-linux-gnu"
readonly root="${URMA_DISTRO_CACHE:-${HOME}/.cache/urma-distro}/${debian_arch}"
[[ "$2" != why-not ]] || { why_not; exit; }
[[ "$(id -u)" -eq 0 ]] || die "a cross build needs root, for debootstrap"
[[ -e "${root}/var/lib/dpkg/status" ]] || make_root "${root}"
case "$2" in
  bazel) run_bazel "${@:3}" ;;
  emulate) emulate "${@:3}" ;;
  root) echo "${root}" ;;
  *) die "cross.sh: '$2' is not one of bazel, emulate, root, why-not" ;;
esac
