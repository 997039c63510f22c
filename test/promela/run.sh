#!/bin/bash
#
# Searches all states of the models here. The invariants must hold in every state, and each removed
# rule must be detected: a model in which nothing can go wrong shows nothing.

set -uo pipefail

readonly HERE="$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")"

# Model, expected outcome, definitions.
readonly RUNS=(
  "ring holds"
  "ring fails NO_CLEAR"
  "ring fails REUSE"
  "ring fails NO_WANTED"
  "ring fails EARLY"
  "wake holds"
  "wake holds FENCED"
  "wake holds MIXED"
  "wake fails NO_BARRIER"
  "wake fails LOOK_FIRST"
  "wake fails NO_LOOK"
  "wake fails NO_JANITOR"
  "wake fails FENCED LOOK_FIRST"
  "wake fails MIXED LOOK_FIRST"
  "wake fails MIXED NO_BARRIER"
  "wake fails MIXED NO_FENCE"
  "bias holds"
  "bias fails NO_BARRIER"
  "bias fails LOOK_FIRST"
  "bias fails NO_LOOK"
  "bias fails NO_WAIT"
  "bias fails LETS_IN"
  "bias fails NO_UNDO"
  "short_mutex holds"
  "short_mutex fails FORGETS"
  "short_mutex fails SLEEPS_ON"
)

scratch="$(mktemp -d)"
trap 'rm -rf "${scratch}"' EXIT
cd "${scratch}" || exit

passed=0
failed=0
for run in "${RUNS[@]}"; do
  read -r model outcome definitions <<<"${run}"
  flags=()
  for definition in ${definitions}; do flags+=("-D${definition}"); done
  found=broken
  if spin -a "${flags[@]}" "${HERE}/${model}.pml" >log 2>&1 &&
    "${CC:-gcc}" -O2 -w -DSAFETY -o pan pan.c >>log 2>&1; then
    ./pan -m100000 >log 2>&1
    # An incomplete search shows nothing.
    case "$(grep -c 'Search not completed\|max search depth too small' log) $(grep -o 'errors: [0-9]*' log)" in
      "0 errors: 0") found=holds ;;
      *"errors: "[1-9]*) found=fails ;;
    esac
  fi
  if [[ "${found}" == "${outcome}" ]]; then
    ((++passed))
    echo "PASS ${run}: $(grep -o '[0-9]* states, stored' log)"
  else
    ((++failed))
    echo "FAIL ${run}: it ${found}"
    sed 's/^/    | /' log
  fi
done
echo "${passed} passed, ${failed} failed, 0 skipped"
((failed == 0))
