#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Debian's programs on libfabric, over urma_shm0: fi_info and fi_pingpong, Open MPI with a program
# that checks what it moves, NetPIPE and HPCC, and a job in which one rank is killed. Each is a
# separate case, skipped if its program is missing. The last line has the counts.
set -euo pipefail

readonly scratch="${TEST_TMPDIR}/mpi"
mkdir -p "${scratch}"
# Sockets have short names.
URMA_RUNTIME_DIR="$(mktemp -d -t urma-mpi.XXXXXX)"
# Kills everything that runs below the process $1. timeout has its own process group.
end_below() {
  local child
  for child in $(<"/proc/$1/task/$1/children"); do
    end_below "${child}" || true
    kill "${child}" || true
  done 2>/dev/null
}
trap 'end_below $$; rm -rf "${URMA_RUNTIME_DIR}"' EXIT
trap 'exit 143' INT TERM
export URMA_RUNTIME_DIR FI_PROVIDER_PATH="${PWD}/lib/libfabric"
# One machine, fewer processors than ranks, also as root.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_plm=isolated
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
export OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_orte_tmpdir_base="${URMA_RUNTIME_DIR}"
export OMPI_MCA_pml=cm OMPI_MCA_mtl=ofi OMPI_MCA_mtl_ofi_provider_include=urma
# Open MPI 5 wants a home and calls these otherwise.
export HOME="${scratch}" PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
export PRTE_MCA_hwloc_default_binding_policy=none PRTE_MCA_prte_tmpdir_base="${URMA_RUNTIME_DIR}"
# One-sided calls become messages, as Open MPI 5 no longer can.
[[ "$(ompi_info 2>/dev/null)" != *'osc: pt2pt'* ]] || export OMPI_MCA_osc=pt2pt
readonly program="${scratch}/mpi_program"

passed=0 failed=0 skipped=0
readonly skip=77

# Runs the case $1, a function of this name, if the programs $2... exist.
run() {
  local name="$1" needed status=0
  shift
  for needed; do
    command -v "${needed}" >/dev/null && continue
    echo "SKIP: ${name}: ${needed} is not installed"
    skipped=$((skipped + 1))
    return
  done
  # In a condition, the shell would continue after a failing command; and it handles no signal
  # before a foreground command ends.
  set +e
  (
    set -e
    trap 'end_below "${BASHPID}"' EXIT
    "${name}"
  ) >"${scratch}/${name}.log" 2>&1 &
  wait $!
  status=$?
  set -e
  if ((status == 0)); then
    echo "ok ${name}"
    passed=$((passed + 1))
  elif ((status == skip)); then
    echo "SKIP: ${name}: $(tail -n 1 "${scratch}/${name}.log")"
    skipped=$((skipped + 1))
  else
    echo "FAIL: ${name}"
    tail -n 40 "${scratch}/${name}.log"
    failed=$((failed + 1))
  fi
}

# Only a hang takes this long, on any machine.
patiently() { timeout 60 "$@"; }

lists_devices() {
  local listed
  listed="$(fi_info -p urma)"
  grep -A 4 '^provider: urma$' <<<"${listed}" | grep -x '    domain: urma_shm0'
  grep -A 4 '^provider: urma$' <<<"${listed}" | grep -x '    type: FI_EP_RDM'
}

lists_the_layer_if_told() {
  local listed
  listed="$(fi_info -p urma)"
  grep ofi_rxm <<<"${listed}" && return 1
  listed="$(FI_URMA_RXM=1 fi_info -p urma)"
  grep -A 4 '^provider: urma;ofi_rxm$' <<<"${listed}" | grep -x '    type: FI_EP_RDM'
  listed="$(FI_URMA_RXM=1 fi_info -p 'urma;^ofi_rxm')"
  grep ofi_rxm <<<"${listed}" && return 1
  grep -A 4 '^provider: urma$' <<<"${listed}" | grep -x '    type: FI_EP_RDM'
}

lists_nothing_and_says_nothing() {
  local said status=0
  said="$(URMA_RUNTIME_DIR=/proc/none fi_info -p urma 2>&1)" || status=$?
  echo "${said}"
  ((status != 0)) && [[ "${said}" == 'fi_getinfo: -61'?(' (No data available)') ]]
}

# fi_pingpong with the given arguments, at a free port.
pingpong() {
  local port server
  port="$(python3 -c 'import socket
one = socket.create_server(("", 0))
print(one.getsockname()[1])')"
  patiently fi_pingpong -B "${port}" -I 20 -c "$@" &
  server=$!
  until patiently fi_pingpong -P "${port}" -I 20 -c "$@" 127.0.0.1; do
    kill -0 "${server}" || return
  done
  wait "${server}"
}

pingpong_by_connection() { pingpong -p urma -e msg; }
pingpong_by_datagram() { pingpong -p urma -e rdm; }
pingpong_by_tag() { pingpong -p urma -e rdm -m tagged; }
pingpong_by_layer() { FI_URMA_RXM=1 pingpong -p 'urma;ofi_rxm' -e rdm -m tagged; }

# The program with $1 ranks and the arguments that follow.
ranks() {
  local said
  said="$(patiently mpirun.openmpi -np "$1" "${program}" "${@:2}")"
  echo "${said}"
  [[ "${said}" == ok ]]
}

two_ranks() { ranks 2; }
four_ranks() { ranks 4; }
ranks_by_layer() {
  FI_URMA_RXM=1 OMPI_MCA_mtl_ofi_provider_include='urma;ofi_rxm' ranks 2
}

probes() { ranks 2 probe; }
probes_by_layer() {
  FI_OFI_RXM_SAR_LIMIT=0 FI_URMA_RXM=1 OMPI_MCA_mtl_ofi_provider_include='urma;ofi_rxm' \
    ranks 2 probe
}

netpipe() {
  cd "${scratch}"
  patiently mpirun.openmpi -np 2 NPopenmpi -u 300000 -n 3 -p 0 -o np.out
  awk 'END { exit !($1 >= 262144) }' np.out
}

hpc_challenge() {
  local input=/usr/share/doc/hpcc/examples/_hpccinf.txt
  if [[ ! -e "${input}" ]]; then
    echo "no ${input}: documentation is not installed on this system"
    return "${skip}"
  fi
  cd "${scratch}"
  sed -E -e 's/^[0-9 ]+ Ns$/200 Ns/' -e '11s/.*/2 Ps/' -e '12s/.*/1 Qs/' "${input}" >hpccinf.txt
  patiently mpirun.openmpi -np 2 hpcc
  grep 'End of HPC Challenge tests' hpccoutf.txt
  grep '^Success=1$' hpccoutf.txt
}

killed_rank() {
  local word pids pid job began status=0
  mkfifo "${scratch}/job"
  patiently mpirun.openmpi -np 4 "${program}" wait >"${scratch}/job" &
  job=$!
  read -r word pids <"${scratch}/job"
  [[ "${word}" == ready ]]
  began="${EPOCHREALTIME/./}"
  kill -KILL "${pids##* }"
  wait "${job}" || status=$?
  echo "the job ended with ${status}, $(((${EPOCHREALTIME/./} - began) / 1000)) ms after the kill"
  ((status != 0 && status != 124))
  for pid in ${pids}; do timeout 60 tail --pid="${pid}" -f /dev/null; done
  # The next process cleans up.
  fi_info -p urma >/dev/null
  ! compgen -G "${URMA_RUNTIME_DIR}/slot-*"
}

if command -v mpicc.openmpi >/dev/null; then
  mpicc.openmpi -O1 -o "${program}" test/ofi/mpi_program.c
else
  echo 'mpicc.openmpi is not installed: nothing compiled'
fi
run lists_devices fi_info
run lists_the_layer_if_told fi_info
run lists_nothing_and_says_nothing fi_info
run pingpong_by_connection fi_pingpong
run pingpong_by_datagram fi_pingpong
run pingpong_by_tag fi_pingpong
run pingpong_by_layer fi_pingpong
run two_ranks mpicc.openmpi mpirun.openmpi
run four_ranks mpicc.openmpi mpirun.openmpi
run ranks_by_layer mpicc.openmpi mpirun.openmpi
run probes mpicc.openmpi mpirun.openmpi
run probes_by_layer mpicc.openmpi mpirun.openmpi
run netpipe NPopenmpi mpirun.openmpi
run hpc_challenge hpcc mpirun.openmpi
run killed_rank fi_info mpicc.openmpi mpirun.openmpi
grep -s 'ms after' "${scratch}/killed_rank.log" || true
echo "${passed} passed, ${failed} failed, ${skipped} skipped"
((failed == 0))
