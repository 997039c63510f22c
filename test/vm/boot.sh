#!/bin/bash
#
# usage: boot.sh qemu|uml|arm64[-16k|-64k|-a72] FOLDER SECONDS [PROCESSOR]
# Boots a guest that runs the script FOLDER/job as root, with the host's files readable and FOLDER
# writable as /out; prints the output of the job. Leaves FOLDER/kernel.log, and FOLDER/status with
# the exit status of the job, unless the guest ended before the job. Exits with 0 if there is a
# status, with 124 on timeout. PROCESSOR is the only one of this machine that the guest may use.
# Guests of arm64 see as their root what tools/dev/cross.sh has unpacked, and in it this tree and
# what was built from it.

set -euo pipefail

here="$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")"
# For modprobe; only root has it by default.
PATH="${PATH}:/usr/sbin:/sbin"

# The kernel boots on one processor, and init starts the other: during boot the kernel patches its
# own code with int3. With two emulating threads, one may see an int3 after the kernel is done with
# it, which panics. lpj saves the second processor a second of calibration.
boot_qemu() {
  emulate "$@" qemu-system-x86_64 -M q35 -cpu max -device virtio-rng-pci -append \
    "console=ttyS0 maxcpus=1 noreplace-smp lpj=10000000 no5lvl tsc=reliable no_timer_check \
      vm.modules=$1"
}

# The processor has everything that TCG knows, and signs pointers by a fast function instead of the
# architecture's own, which TCG computes slowly.
boot_arm64() {
  boot_arm64_on max,pauth-impdef=on "$@"
}

# It lacks LSE: its atomics are loops.
boot_arm64-a72() {
  boot_arm64_on cortex-a72 "$@"
}

boot_arm64-16k() { boot_arm64 "$@"; }
boot_arm64-64k() { boot_arm64 "$@"; }

boot_arm64_on() {
  local processor="$1"
  shift
  local packages built
  packages="$("${here}/../../tools/dev/cross.sh" aarch64 root)" || return
  built="$(readlink "${here}/../../bazel-aarch64-out")" || return
  emulate "$@" qemu-system-aarch64 -M virt -cpu "${processor}" -append \
    "console=ttyAMA0 vm.base=${packages} vm.shown=$(realpath "${here}/../.."):${built%%/execroot/*}"
}

# Boots KERNEL on a machine without KVM: inside some virtual machines /dev/kvm exists and hangs. The
# other arguments are QEMU's, and last what is added to the kernel's command line.
emulate() {
  local kernel="$1" folder="$2" seconds="$3" release
  shift 3
  local modules=() busybox="${kernel}/busybox"
  [[ -e "${busybox}" ]] || busybox=/bin/busybox
  # A kernel that was built for this has all in it.
  if [[ -d "${kernel}/lib/modules" ]]; then
    release="$(ls "${kernel}/lib/modules")"
    mapfile -t modules < <(for module in overlay 9p 9pnet_virtio; do
      modprobe -d "${kernel}" -S "${release}" --show-depends "${module}"
    done | awk '$1 == "insmod" && !seen[$2]++ { print $2 }')
  fi
  "${here}/initramfs.sh" "${folder}/initramfs" "${busybox}" "${modules[@]}"

  local root=9p share=(
    -fsdev local,id=root,path=/,security_model=none,readonly=on,multidevs=remap
    -device virtio-9p-pci,fsdev=root,mount_tag=root
  )
  if [[ "$(id -u)" -eq 0 && -x /usr/lib/qemu/virtiofsd ]] && start_virtiofsd "${folder}"; then
    root=virtiofs
    share=(
      -object memory-backend-memfd,id=memory,size=3072M,share=on -numa node,memdev=memory
      -chardev "socket,id=root,path=${folder}/virtiofsd.socket"
      -device vhost-user-fs-pci,chardev=root,tag=root
    )
  fi
  timeout --foreground --kill-after=5 "${seconds}" "${@:1:$#-1}" \
    "${*: -1} quiet panic=-1 mitigations=off nokaslr audit=0 apparmor=0 random.trust_cpu=on \
      vm.root=${root} vm.console=/dev/hvc0" \
    -nodefaults -no-user-config -display none -no-reboot \
    -accel tcg,thread=multi,tb-size=512 -smp 2 -m 3072 \
    -kernel "${kernel}/vmlinuz" -initrd "${folder}/initramfs" \
    -serial "file:${folder}/kernel.log" \
    -device virtio-serial-pci -chardev stdio,id=console,signal=off \
    -device virtconsole,chardev=console \
    -fsdev "local,id=out,path=${folder},security_model=none" \
    -device virtio-9p-pci,fsdev=out,mount_tag=out "${share[@]}" </dev/null
}

# It exits when QEMU does. Its socket has a name before it accepts connections.
start_virtiofsd() {
  local folder="$1" socket="$1/virtiofsd.socket" tries=0
  /usr/lib/qemu/virtiofsd --socket-path="${socket}" -o source=/ -o cache=always \
    -o sandbox=chroot --thread-pool-size=2 >"${folder}/virtiofsd.log" 2>&1 </dev/null &
  until awk -v path="${socket}" -v listens=00010000 \
    '$4 == listens && index($0, path) { found = 1 } END { exit !found }' /proc/net/unix; do
    ((++tries < 200)) || { cat "${folder}/virtiofsd.log" >&2; return 1; }
    sleep 0.05
  done
}

boot_uml() {
  local kernel="$1" folder="$2" seconds="$3"
  "${here}/initramfs.sh" "${folder}/initramfs" /bin/busybox
  HOME="${folder}" LD_PRELOAD="${kernel}/xstate.so" timeout --foreground --kill-after=5 "${seconds}" \
    "${kernel}/linux" mem=2048M initrd="${folder}/initramfs" \
    con=null con0=null,fd:2 con1=null,fd:1 console=tty0 quiet panic=-1 random.trust_cpu=on \
    vm.root=hostfs vm.out="${folder}" vm.console=/dev/tty1 </dev/null 2>"${folder}/kernel.log"
}

main() {
  local kind="$1" folder seconds="$3" processor="${4:-}" kernel status=0
  folder="$(realpath "$2")"
  kernel="$("${here}/kernel_${kind%%-*}.sh" "${kind%-a72}")"
  rm -f "${folder}/status" "${folder}/kernel.log"
  [[ -z "${processor}" ]] || taskset --cpu-list --pid "${processor}" $$ >/dev/null
  "boot_${kind}" "${kernel}" "${folder}" "${seconds}" || status=$?
  [[ ! -s "${folder}/status" ]] || return 0
  return "$((status == 124 || status == 137 ? 124 : 1))"
}

main "$@"
