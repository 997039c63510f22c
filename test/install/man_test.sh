#!/bin/bash
# SPDX-License-Identifier: MIT
#
# The manual: every exported name has its page, every page renders without a warning and without a
# split word, every example compiles as C11 against the public headers, every reference leads
# somewhere, and urma_env(7) agrees with the library on each setting.
set -euo pipefail

readonly pages="${TEST_TMPDIR}/pages" examples="${TEST_TMPDIR}/examples"
export LC_ALL=C.UTF-8 LD_LIBRARY_PATH="${PWD}/lib" URMA_RUNTIME_DIR="${TEST_TMPDIR}/runtime"
failures=0

fail() {
  echo "FAIL: $*"
  failures=$((failures + 1))
}

# Prints the names on stdin that have no page of section 3.
without_page() {
  local name
  while read -r name; do
    [[ -f "${pages}/man3/${name}.3" ]] || echo "${name}"
  done
}

python3 tools/dev/man.py --out "${pages}" --examples "${examples}"

for library in lib/liburma.so.0 lib/libtpsa.so.0; do
  nm -D --defined-only "${library}" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }'
done | grep -v '^URMA_' | sort -u >"${TEST_TMPDIR}/symbols"
(($(wc -l <"${TEST_TMPDIR}/symbols") > 128)) || fail "the library exports 128 symbols or fewer"
while read -r name; do
  fail "${name} is exported and has no page"
done < <(without_page <"${TEST_TMPDIR}/symbols")
[[ "$(echo urma_no_such_function | without_page)" == urma_no_such_function ]] ||
  fail "a name without a page is not reported"
python3 tools/dev/man.py --list | sort | comm -23 - "${TEST_TMPDIR}/symbols" |
  while read -r name; do echo "${name} has a page and is not exported"; done >"${TEST_TMPDIR}/extra"
[[ ! -s "${TEST_TMPDIR}/extra" ]] || fail "$(cat "${TEST_TMPDIR}/extra")"

for page in "${pages}"/man*/*; do
  if [[ "$(head -c 4 "${page}")" == '.so ' ]]; then
    [[ -f "${pages}/$(cut -c 5- "${page}")" ]] || fail "${page##*/} links to a missing page"
    continue
  fi
  complaints="$({
    mandoc -Tlint -W warning "${page}" || true
    man --warnings -l "${page}" 2>&1 >"${TEST_TMPDIR}/page"
    grep '‐$' "${TEST_TMPDIR}/page" || true
  })"
  [[ -z "${complaints}" ]] || fail "${page##*/}: ${complaints}"
  while IFS='()' read -r name section; do
    [[ -f "${pages}/man${section}/${name}.${section}" ]] ||
      fail "${page##*/} refers to ${name}(${section}), which does not exist"
  done < <(grep -oP '\\fB\K\w+\\fR\(\d\)' "${page}" | sed 's/\\fR//' | sort -u)
  while read -r document; do
    [[ -f "${document}" ]] || fail "${page##*/} names ${document}, where nothing is"
  done < <(grep -oP '[\w/.]+\.md\b' "${page}" | sort -u)
done

for example in "${examples}"/*.c; do
  cc -std=c11 -Wall -Wextra -Werror -Iurma/include -c -o /dev/null "${example}" \
    2>"${TEST_TMPDIR}/compiler" ||
    fail "the example ${example##*/} does not compile: $(cat "${TEST_TMPDIR}/compiler")"
done
(($(find "${examples}" -name '*.c' | wc -l) > 20)) || fail "there are 20 examples or fewer"

tools/admin/urma_admin --json show config >"${TEST_TMPDIR}/config.json"
man -l "${pages}/man7/urma_env.7" | col -bx >"${TEST_TMPDIR}/env.txt"
python3 - "${TEST_TMPDIR}/config.json" "${TEST_TMPDIR}/env.txt" <<'END' || fail "urma_env(7) and the table of settings differ (above)"
import json, sys

settings = json.load(open(sys.argv[1]))
while isinstance(settings, dict):
    settings = next(v for v in settings.values() if isinstance(v, (list, dict)))
page = " ".join(open(sys.argv[2]).read().split())
assert len(settings) > 10, settings
for setting in settings:
    help_text = setting["help"]
    for part in (setting["name"], help_text[1:], setting.get("range") or setting.get("allowed", "")):
        assert " ".join(part.split()) in page, f"{setting['name']}: no {part!r} in the page"
assert page.count("Default: ") + page.count("No default") == len(settings)
END

echo "$(wc -l <"${TEST_TMPDIR}/symbols") symbols, ${failures} failures"
((failures == 0))
