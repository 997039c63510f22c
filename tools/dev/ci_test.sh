#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Runs .ci/run over a fake ./dev with scripted results: a failure by chance, a lasting one, and one
# too many.
set -uo pipefail

ci="${PWD}/.ci/run"
tree="$(mktemp -d)"
trap 'rm -rf "${tree}"' EXIT
mkdir "${tree}/.ci" "${tree}/.git"
cp "${ci}" "${tree}/.ci/run"
passed=0
failed=0

# Prints the contents of ${tree}'s file of this name; the status is 1 if it counts a failure. A part
# without a file passes. A repeated part passes if the file `steady` has its arguments.
cat >"${tree}/dev" <<'DEV'
#!/bin/bash
echo "$*" >>calls
if [[ "$1" == repeat ]]; then
  grep -qxF -- "$*" steady && echo '3 passed, 0 failed, 0 skipped' && exit
  echo '2 passed, 1 failed, 0 skipped'
  exit 1
fi
part="$*"
cat "${part// /_}" 2>/dev/null || echo '5 passed, 0 failed, 0 skipped'
! grep -q '[1-9][0-9]* failed' "${part// /_}" 2>/dev/null
DEV
chmod +x "${tree}/dev"

# Runs .ci/run; its status must be 1 if one test counts as failed, the number $1, else 0. Each part
# has five.
run_ci() {
  output="$(cd "${tree}" && bash .ci/run 2>&1)"
  local status=$? total
  total="$(grep -vc '^repeat' "${tree}/calls" | awk '{ print 5 * $1 }')"
  expect "status $1" "$([[ "${status}" -eq "$1" ]]; echo $?)"
  expect "$((total - $1)) passed, $1 failed" "$(tail -n 1 <<<"${output}" |
    grep -qxF "$((total - $1)) passed, $1 failed, 0 skipped"; echo $?)"
}

# Runs .ci/run with a budget of $1 seconds, as if `./dev test` had taken $2.
run_slow() {
  sed -i "s/^readonly BUDGET_SECONDS=.*/readonly BUDGET_SECONDS=$1/; s/^  test_seconds=.*/  test_seconds=$2/" \
    "${tree}/.ci/run"
  output="$(cd "${tree}" && bash .ci/run 2>&1)"
  cp "${ci}" "${tree}/.ci/run"
}

# Counts one fact, which is true if $2 is 0.
expect() {
  if [[ "$2" == 0 ]]; then
    ((++passed))
  else
    ((++failed))
    printf 'not so: %s\n%s\n' "$1" "${output}"
  fi
}

says() { expect "says '$1'" "$(grep -qF -- "$1" <<<"${output}"; echo $?)"; }
does_not_say() { expect "does not say '$1'" "$(! grep -qF -- "$1" <<<"${output}"; echo $?)"; }

reset() {
  find "${tree}" -maxdepth 1 -type f ! -name dev -delete
  touch "${tree}/steady"
}

reset
run_ci 0
does_not_say FLAKY

reset
printf 'FAIL //test/a:b_test Ring.Wraps/shm\n    | ring.cc:9\n4 passed, 1 failed, 0 skipped\n' \
  >"${tree}/sanitize_thread"
echo 'repeat thread 3 //test/a:b_test Ring.Wraps/shm' >"${tree}/steady"
run_ci 0
says 'FLAKY ./dev sanitize thread: //test/a:b_test Ring.Wraps/shm: failed once, then passed'
expect 'the log stands at the end' "$(tail -n 2 <<<"${output}" | grep -qF 'ring.cc:9'; echo $?)"

reset
printf 'FAIL //test/a:b_test: TIMEOUT\n    | stuck\n4 passed, 1 failed, 0 skipped\n' >"${tree}/test"
run_ci 1
says './dev test: FAIL //test/a:b_test: TIMEOUT'
expect 'the target was repeated' "$(grep -qxF 'repeat 3 //test/a:b_test' "${tree}/calls"; echo $?)"
does_not_say FLAKY

reset
for name in A B C D; do
  printf 'FAIL //test/a:b_test Ring.%s\n    | %s\n' "${name}" "${name}"
  echo "repeat 3 //test/a:b_test Ring.${name}" >>"${tree}/steady"
done >"${tree}/test"
echo '1 passed, 4 failed, 0 skipped' >>"${tree}/test"
run_ci 1
says 'FLAKY ./dev test: //test/a:b_test Ring.C: failed once'
says './dev test: FAIL //test/a:b_test Ring.D'

reset
printf 'FAIL two_process on siw\n    | late\n4 passed, 1 failed, 0 skipped\n' >"${tree}/vm"
run_ci 1
expect 'guests are not asked again' "$(! grep -q repeat "${tree}/calls"; echo $?)"

# On a machine that is too slow for it, the sanitizers run a part of the tests, or none.
expect_part() { expect "$1" "$(grep -qx -- "$1" "${tree}/calls"; echo $?)"; }
reset
run_slow 1000 1000
for sanitizer in address thread; do
  says "SKIP ./dev sanitize ${sanitizer}, except //test/unit: it takes as long as ./dev test, 1000 s"
  expect_part "sanitize ${sanitizer} //test/unit:"
done
reset
run_slow 1500 1000
expect_part 'sanitize address //test/unit:'
expect_part 'sanitize thread'
reset
run_slow 1000 3000
says 'SKIP ./dev sanitize address: it takes as long as ./dev test, 3000 s, and'
expect 'no sanitizer ran' "$(! grep -q sanitize "${tree}/calls"; echo $?)"

# Another architecture comes last, if its minutes are left.
reset
run_ci 0
expect 'the last part is cross' "$(tail -n 1 "${tree}/calls" | grep -qx 'cross aarch64 test quick'
  echo $?)"

reset
run_slow $((10 * 60 - 1)) 0
says 'SKIP ./dev cross aarch64 test quick: it takes up to 600 s, and'
expect 'cross was left out' "$(! grep -q cross "${tree}/calls"; echo $?)"
reset
run_slow $((15 * 60 - 1)) $((17 * 60 * 3 / 2))
says 'SKIP ./dev cross aarch64 test quick: it takes up to 900 s, and'
reset
# A minute more, for the time that this run itself takes.
run_slow $((16 * 60)) $((17 * 60 * 3 / 2))
expect_part 'cross aarch64 test quick'

reset
printf 'FAIL //test/unit:ring_test Ring.Wraps\n    | ring.cc:9\n4 passed, 1 failed, 0 skipped\n' \
  >"${tree}/cross_aarch64_test_quick"
run_ci 1
expect 'an emulated test is not repeated' "$(! grep -q repeat "${tree}/calls"; echo $?)"

echo "${passed} passed, ${failed} failed, 0 skipped"
((failed == 0))
