#!/bin/bash
#
# Runs in a guest: makes the software RDMA devices for tests, and waits until they are usable.
# Fails, and says what is missing, if one does not come up.
#
#   rxe0, rxe1  Soft-RoCE on the two ends of one virtual cable: link-local addresses, GID index 0
#   rxe2        Soft-RoCE on a network device with two addresses: 10.77.2.1 (GID index 1) and
#               10.77.2.2 (GID index 2)
#   siw0        Soft-iWARP on a network device with the address 10.77.3.1

set -euo pipefail

readonly POLL_SECONDS=0.05
readonly LIMIT_SECONDS=60

fail() {
  echo "devices: $*" >&2
  exit 1
}

# Makes a network device that is up at once, without duplicate address detection. An MTU of 4200
# gives RDMA one of 4096.
bring_up() {
  local name="$1" address
  shift
  sysctl -q -w "net.ipv6.conf.${name}.accept_dad=0"
  ip link set "${name}" mtu 4200 up
  for address in "$@"; do ip address add "${address}/24" dev "${name}"; done
}

# Waits until GID number INDEX of DEVICE ends in SUFFIX.
await_gid() {
  local device="$1" index="$2" suffix="$3"
  local file="/sys/class/infiniband/${device}/ports/1/gids/${index}"
  local end=$((SECONDS + LIMIT_SECONDS))
  until grep -qs "${suffix}\$" "${file}"; do
    ((SECONDS < end)) || fail "${device} has no GID ...${suffix} at index ${index}: " \
      "$(cat "${file}" 2>&1)"
    sleep "${POLL_SECONDS}"
  done
}

add_device() {
  local name="$1" type="$2" netdev="$3"
  rdma link add "${name}" type "${type}" netdev "${netdev}" ||
    fail "cannot make ${name} (${type} on ${netdev})"
}

main() {
  [[ ! -d "/lib/modules/$(uname -r)" ]] ||
    modprobe -a ib_uverbs rdma_ucm rdma_rxe siw veth dummy || fail "cannot load the modules"
  ip link add net0 address 02:00:00:00:00:01 type veth peer name net1 address 02:00:00:00:00:02
  ip link add net2 address 02:00:00:00:00:03 type dummy
  ip link add net3 address 02:00:00:00:00:04 type dummy
  bring_up net0
  bring_up net1
  bring_up net2 10.77.2.1 10.77.2.2
  bring_up net3 10.77.3.1
  add_device rxe0 rxe net0
  add_device rxe1 rxe net1
  add_device rxe2 rxe net2
  add_device siw0 siw net3
  await_gid rxe0 0 fe80:0000:0000:0000:0000:00ff:fe00:0001
  await_gid rxe1 0 fe80:0000:0000:0000:0000:00ff:fe00:0002
  await_gid rxe2 1 ffff:0a4d:0201
  await_gid rxe2 2 ffff:0a4d:0202
  await_gid siw0 0 0200:0000:0004:0000:0000:0000:0000:0000
}

main "$@"
