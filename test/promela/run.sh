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
  "wake holds PLAIN"
  "wake holds TWO"
  "wake holds TWO PLAIN"
  "wake holds TWO FENCED"
  "wake holds TWO MIXED"
  "wake fails NO_TOLD_FENCE"
  "wake fails NO_SECOND_LOOK"
  "wake fails SKIPS_ITS_OWN"
  "wake fails TWO SETS_ONLY"
  "wake fails TWO STORE_CLEARS"
  "wake fails TWO NO_LAST_LOOK"
  "wake fails TWO LAST_LOOK_FIRST"
  "wake fails TWO NO_END_BARRIER"
  "wake fails TWO KEEPS_LOOKS"
  "wake fails TWO ENDS_BLIND"
  "wake fails HEEDS_LOOKS"
  "wake holds TWO DROPS_FENCE"
  "wake holds TWO CLEARS_ANY"
  "wake holds TWO RAISE_LEAVES_LOOKS"
  "wake holds TWO LOOKS_BY_EXCHANGE NO_END_BARRIER"
  "wake fails TWO LOOKS_BY_EXCHANGE NO_END_BARRIER CLEARS_ANY"
  "bias holds"
  "bias fails NO_BARRIER"
  "bias fails LOOK_FIRST"
  "bias fails NO_LOOK"
  "bias fails NO_WAIT"
  "bias fails LETS_IN"
  "bias fails NO_UNDO"
  "short_mutex holds"
  "short_mutex fails FORGETS"
  "short_mutex fails HANDS_ANYWAY"
  "short_mutex fails SLEEPS_ON"
  "joint holds"
  "joint fails NO_WITHDRAW"
  "joint fails LOOKS_FIRST"
  "joint fails OFFERS_ON"
  "joint fails NO_WAIT"
  "joint fails NO_CLOSE"
  "joint fails ANY_TOLD"
  "joint fails CLAIMS_FIRST"
  "joint fails POSITION_FIRST"
  "joint fails NO_TURN"
  "joint fails FORGETS_FAILURE"
  "weak_litmus holds MP"
  "weak_litmus fails MP WEAK"
  "weak_litmus holds MP_FENCES"
  "weak_litmus fails MP_FENCES WEAK"
  "weak_litmus holds SB"
  "weak_litmus fails SB WEAK"
  "weak_litmus fails SB_RELEASED"
  "weak_litmus holds SB_MEMBARRIER"
  "weak_litmus fails SB_MEMBARRIER WEAK"
  "weak_litmus holds LB"
  "weak_litmus fails LB WEAK"
  "weak_litmus holds IRIW"
  "weak_litmus fails IRIW WEAK"
  "weak_litmus fails IRIW_ACQUIRED"
  "weak_litmus holds CORR"
  "weak_litmus holds CHAIN"
  "weak_litmus fails CHAIN WEAK"
  "weak_ring holds"
  "weak_ring fails NO_PUBLISH_RELEASE"
  "weak_ring fails NO_PUBLISH_ACQUIRE"
  "weak_ring fails NO_CONSUMED_RELEASE"
  "weak_ring fails NO_CONSUMED_ACQUIRE"
  "weak_ring fails UNANSWERED NO_CONSUMED_RELEASE"
  "weak_ring fails NO_CLOSED_RELEASE"
  "weak_ring fails NO_CLOSED_ACQUIRE"
  "weak_ring fails CLOSED_LAST"
  "weak_ring holds NO_WANTED_RELEASE NO_WANTED_ACQUIRE"
  "weak_bias holds"
  "weak_bias fails NO_MEMBARRIER"
  "weak_bias fails NO_SIGNAL_FENCE"
  "weak_bias fails NO_LEAVE_RELEASE"
  "weak_bias fails NO_AWAIT_ACQUIRE"
  "weak_bias fails NO_UNDO_RELEASE"
  "weak_bias fails NO_FOREIGN_RELEASE"
  "weak_bias fails NO_FOREIGN_ACQUIRE"
  "weak_bias holds QUIESCE"
  "weak_bias fails QUIESCE NO_MEMBARRIER"
  "weak_bias fails QUIESCE NO_SIGNAL_FENCE"
  "weak_bell holds"
  "weak_bell holds FENCED"
  "weak_bell holds MIXED"
  "weak_bell holds NO_FENCE"
  "weak_bell fails NO_MEMBARRIER"
  "weak_bell fails NO_SIGNAL_FENCE"
  "weak_bell fails LOOK_FIRST"
  "weak_bell fails FENCED NO_FENCE"
  "weak_bell fails FENCED NO_LIGHT_FENCE"
  "weak_bell fails MIXED NO_MEMBARRIER"
  "weak_bell fails MIXED NO_ARRIVED_FENCE"
  "weak_bell holds FENCES"
  "weak_bell holds FENCES MIXED"
  "weak_bell holds FENCES TWO"
  "weak_bell holds FENCES LOOKS"
  "weak_bell holds FENCED LOOKS"
  "weak_bell holds FENCES MIXED LOOKS"
  "weak_bell holds FENCES TWO LOOKS"
  "weak_bell fails FENCES NO_MEMBARRIER"
  "weak_bell fails FENCES NO_FENCE"
  "weak_bell fails FENCES NO_TOLD_FENCE"
  "weak_bell fails FENCES NO_SECOND_LOOK"
  "weak_bell fails FENCES MIXED NO_FENCE"
  "weak_bell fails FENCES LOOKS NO_END_FENCE"
  "weak_bell fails FENCED LOOKS NO_END_FENCE"
  "weak_bell fails FENCES LOOKS NO_END_BARRIER"
  "weak_bell fails FENCES LOOKS NO_LAST_LOOK"
  "weak_bell fails FENCES LOOKS LAST_LOOK_FIRST"
  "weak_mutex holds"
  "weak_mutex fails NO_MOVE_ACQUIRE"
  "weak_mutex fails NO_UNLOCK_RELEASE"
  "weak_mutex fails NO_STORE_RELEASE"
  "weak_mutex fails NO_STORE_SEQ_CST"
  "weak_tick holds"
  "weak_tick fails NO_EXCHANGE"
  "weak_tick holds POSTS"
  "weak_tick fails POSTS NO_EXCHANGE"
  "weak_tick fails POSTS NO_PENDING_EXCHANGE"
  "weak_tick fails POSTS NO_SECOND_LOOK"
  "weak_marks holds"
  "weak_marks fails NO_MARK_FENCE"
  "weak_marks fails NO_AWAIT_FENCE"
  "weak_marks fails NO_UNMARK_RELEASE"
  "weak_marks fails NO_AWAIT_ACQUIRE"
  "weak_marks fails LOOKS_FIRST"
  "weak_view holds"
  "weak_view fails NO_OWNER_FENCE"
  "weak_view fails NO_READER_FENCE"
  "weak_view holds SEGMENT"
  "weak_view fails SEGMENT NO_OWNER_FENCE"
  "weak_view fails SEGMENT NO_READER_FENCE"
  "weak_view fails SEGMENT NO_STANDS_RELEASE"
  "weak_view fails SEGMENT NO_STANDS_ACQUIRE"
)

# An incomplete search shows nothing, nor does one in which weak.pml lacks room for a write.
readonly INCOMPLETE='Search not completed\|max search depth too small'
readonly NO_ROOM='assertion violated ((newest\['

scratch="$(mktemp -d)"
trap 'rm -rf "${scratch}"' EXIT
cd "${scratch}" || exit

passed=0
failed=0
for run in "${RUNS[@]}"; do
  read -r model outcome definitions <<<"${run}"
  flags=()
  for definition in ${definitions}; do flags+=("-D${definition}"); done
  # A search that ends at the first error is shorter than the compiler's work on it.
  optimize=-O2
  [[ "${outcome}" == holds ]] || optimize=-O0
  found=broken
  if spin -a "${flags[@]}" "${HERE}/${model}.pml" >log 2>&1 &&
    "${CC:-gcc}" "${optimize}" -w -DSAFETY -o pan pan.c >>log 2>&1; then
    ./pan -m100000 >log 2>&1
    case "$(grep -c "${INCOMPLETE}" log) $(grep -o 'errors: [0-9]*' log)" in
      "0 errors: 0") found=holds ;;
      *"errors: "[1-9]*) found=fails ;;
    esac
    ! grep -q "${NO_ROOM}" log || found=broken
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
