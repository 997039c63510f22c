# What the scripts that make kernels share: where the kernels are kept, and how packages are had.
# Nothing is installed; packages are downloaded and unpacked. To be sourced.

readonly VM_CACHE="${URMA_VM_CACHE:-${HOME}/.cache/urma-vm}"
readonly VM_KERNEL=6.12

# For depmod and modprobe; only root has it by default.
PATH="${PATH}:/usr/sbin:/sbin"

vm_die() {
  echo "vm: $*" >&2
  exit 1
}

# Prints the newest version of PACKAGE that the machine's package sources know.
vm_version() {
  apt-cache show --no-all-versions "$1" 2>/dev/null | sed -n 's/^Version: //p' | head -n 1
}

# Prints the folder that the kernel of KIND is kept in. Its name changes with the kernel's version
# and with the text of the FILEs that it is made from.
vm_folder() {
  local kind="$1" version
  shift
  version="$(vm_version "linux-source-${VM_KERNEL}")"
  [[ -n "${version}" ]] ||
    vm_die "no package linux-source-${VM_KERNEL}; as root, run: apt-get update"
  echo "${VM_CACHE}/${kind}-${version}-$(cat "$@" | cksum | cut -d ' ' -f 1)"
}

# Prints the file of PACKAGE in its newest version, and downloads it if it is not there.
vm_package() {
  local package="$1" version file
  version="$(vm_version "${package}")"
  file="${VM_CACHE}/packages/${package}_${version//:/%3a}.deb"
  if [[ ! -f "${file}" ]]; then
    local folder
    folder="$(mktemp -d -p "${VM_CACHE}" download.XXXXXX)"
    (cd "${folder}" && apt-get -qq -o APT::Sandbox::User="$(id -un)" download \
      "${package}=${version}") >&2 ||
      vm_die "cannot download ${package} ${version}; as root, run: apt-get update"
    mkdir -p "${VM_CACHE}/packages"
    rm -f "${VM_CACHE}/packages/${package}_"*
    mv "${folder}"/*.deb "${file}"
    rmdir "${folder}"
  fi
  echo "${file}"
}

# Unpacks into FOLDER what the arguments of tar that follow choose of the kernel's source.
vm_unpack_source() {
  local folder="$1" package
  shift
  package="$(vm_package "linux-source-${VM_KERNEL}")"
  mkdir -p "${folder}"
  dpkg --fsys-tarfile "${package}" |
    tar -x --to-stdout "./usr/src/linux-source-${VM_KERNEL}.tar.xz" |
    xz -T0 -dc | tar -x -C "${folder}" "$@"
}

# Calls MAKER with an empty folder unless FOLDER is there, and then gives the folder made that
# name; one caller at a time.
vm_make_once() {
  local folder="$1" maker="$2"
  mkdir -p "${VM_CACHE}"
  exec 9>"${VM_CACHE}/lock"
  flock 9
  if [[ ! -d "${folder}" ]]; then
    echo "vm: making ${folder}" >&2
    local partial="${folder}.partial"
    rm -rf "${partial}"
    mkdir "${partial}"
    "${maker}" "${partial}"
    mv "${partial}" "${folder}"
    echo "vm: made it in ${SECONDS} s" >&2
  fi
  flock -u 9
  echo "${folder}"
}
