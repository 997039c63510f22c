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
  echo "${VM_CACHE}/${kind}-${version}-$(cat "${BASH_SOURCE[0]}" "$@" | cksum | cut -d ' ' -f 1)"
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

# Has the functions below find packages of Debian's architecture ARCH, from the same sources, in
# lists of their own; this machine's stay as they are.
vm_use_architecture() {
  local folder="${VM_CACHE}/apt-$1" wanted
  wanted="$(vm_version "linux-source-${VM_KERNEL}")"
  mkdir -p "${folder}"/{lists,cache/archives}/partial
  cat >"${folder}/apt.conf" <<END
APT::Architecture "$1";
APT::Architectures { "$1"; };
Acquire::Languages "none";
Dir::State::Lists "${folder}/lists";
Dir::State::status "/dev/null";
Dir::Cache "${folder}/cache";
END
  export APT_CONFIG="${folder}/apt.conf"
  [[ "$(vm_version "linux-source-${VM_KERNEL}")" == "${wanted}" ]] ||
    apt-get -qq -o APT::Sandbox::User="$(id -un)" update >&2 ||
    vm_die "cannot download the lists of packages for $1"
}

# Prints the package with the newest image of the kernel for FLAVOUR, such as amd64.
vm_image() {
  local package
  package="$(LC_ALL=C apt-cache depends "linux-image-${VM_KERNEL}-$1" |
    awk '/^ *Depends: linux-image-[0-9]/ { print $2; exit }')"
  [[ -n "${package}" ]] || vm_die "no package linux-image-${VM_KERNEL}-$1"
  echo "${package}"
}

# Copies MODULEs and what they depend on from the folder IMAGE to FOLDER, uncompressed: that is slow
# in the guest.
vm_copy_modules() {
  local image="$1" folder="$2" release="$3" module file
  shift 3
  depmod -b "${image}" "${release}"
  for module in "$@"; do
    modprobe -d "${image}" -S "${release}" --show-depends "${module}"
  done | awk '$1 == "insmod" { print $2 }' | sort -u | while read -r module; do
    file="${folder}/${module#"${image}/"}"
    mkdir -p "${file%/*}"
    case "${module}" in
      *.xz) xz -dc "${module}" >"${file%.xz}" ;;
      *) cp "${module}" "${file}" ;;
    esac
  done
  cp "${image}/lib/modules/${release}"/modules.{builtin,builtin.modinfo,order} \
    "${folder}/lib/modules/${release}"
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

# The same without the largest parts that no kernel made here reads.
vm_unpack_kernel() {
  vm_unpack_source "$1" --strip-components=1 --exclude='*/Documentation/devicetree' \
    --exclude='*/arch/*/boot/dts' --exclude='*/drivers/gpu/drm/amd/include/asic_reg' \
    --exclude='*/tools/testing'
}

# Writes the configuration of the kernel in this folder for ARCH: the smallest one and FILE, of
# which nothing may be dropped.
vm_configure() {
  local wanted
  make -s tinyconfig
  scripts/kconfig/merge_config.sh -m .config "$1" >&2
  make -s olddefconfig
  while read -r wanted; do
    grep -qxF "${wanted}" .config || vm_die "the kernel's configuration has dropped ${wanted}"
  done < <(grep '^CONFIG_' "$1")
}

# Calls MAKER with an empty folder unless FOLDER is there, and then gives the folder made that
# name; one caller at a time.
vm_make_once() {
  local folder="$1" maker="$2"
  if [[ -d "${folder}" ]]; then
    echo "${folder}"
    return
  fi
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
