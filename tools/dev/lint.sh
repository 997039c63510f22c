#!/bin/bash
#
# Checks the sources without running them: formatting, clang-tidy, which lock guards what, length
# of files, pairs of SYNC marks, syntax of shell scripts. Looks at files that git tracks or would
# add. Each check of one file counts; the last line is `N passed, N failed, N skipped`.

set -euo pipefail

cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."

# The flags of the build, as far as clang needs them; the packages' include path is `.`.
readonly TIDY_FLAGS=(
  -std=c++20 -Wall -Wextra -I. -Iurma/include
)
readonly MAX_LINES=800

passed=0
failed=0

pass() { passed=$((passed + 1)); }

fail() {
  failed=$((failed + 1))
  echo "FAIL $*"
}

# Prints the files that match the patterns given, as git sees them.
files() {
  local file
  git ls-files --cached --others --exclude-standard -- "$@" | sort -u | while read -r file; do
    [[ ! -f "${file}" || -L "${file}" ]] || echo "${file}"
  done
}

check_format() {
  local file output
  while read -r file; do
    if output="$(clang-format --dry-run -Werror "${file}" 2>&1)"; then
      pass
    else
      fail "${file}: not formatted; run: clang-format -i ${file}"
      head -n 4 <<<"${output}"
    fi
  done < <(files '*.c' '*.cc' '*.h' '*.hpp')
}

# Each looks at one file, given before the flags, and fails with what it has to say.
tidy_one() { clang-tidy --quiet "$1" -- "${@:2}" 2>/dev/null; }
locks_one() { clang++ -fsyntax-only -Wthread-safety -Werror=thread-safety "${@:2}" "$1" 2>&1; }

# Leaves what it said in a file named after the one it looked at, if it failed.
note_failure() {
  local one="$1" folder="$2" file="$3" output
  output="$("${one}" "${file}" "${@:4}")" || echo "${output}" >"${folder}/${file//\//__}"
}

# Lets $1, one of those above, look at each of the files that match the patterns behind $2.
check_each() {
  local one="$1" name="$2" folder file
  shift 2
  folder="$(mktemp -d)"
  export -f note_failure "${one}"
  files "$@" | xargs -P "$(nproc)" -I{} bash -c 'note_failure "$@"' lint "${one}" "${folder}" {} \
    "${TIDY_FLAGS[@]}" || true
  while read -r file; do
    if [[ -e "${folder}/${file//\//__}" ]]; then
      fail "${file}: ${name}"
      cat "${folder}/${file//\//__}"
    else
      pass
    fi
  done < <(files "$@")
  rm -rf "${folder}"
}

# The library and the tools; the tests' macros cost minutes and show nothing of ours.
check_tidy() { check_each tidy_one clang-tidy '*.cc' ':!test/*'; }

# What urma/base/mutex.h lets the library say about its locks.
check_locks() {
  check_each locks_one 'clang -Wthread-safety' 'urma/*.cc' 'jetty/*.cc' 'segment/*.cc'
}

# The ABI is as long as it is, and a test as it needs; production code that is longer than a reader
# can hold is split.
check_length() {
  local file lines
  while read -r file; do
    case "${file}" in
      urma/include/* | docs/errors.md | test/* | *.svg) continue ;;
    esac
    grep -qI . "${file}" || continue
    lines="$(wc -l <"${file}")"
    if ((lines > MAX_LINES)); then
      fail "${file}: ${lines} lines, more than ${MAX_LINES}; split it"
    else
      pass
    fi
  done < <(files)
}

# A mark SYNC with a name stands at each of the places that must change together.
check_sync() {
  local count mark
  while read -r count mark; do
    if ((count >= 2)); then
      pass
    else
      fail "${mark} stands in one place only: $(files | xargs grep -lF "${mark}")"
    fi
  done < <(files | xargs grep -ohIE 'SYNC\([A-Za-z0-9_.-]+\)' 2>/dev/null | sort | uniq -c)
}

check_shell() {
  local file
  while read -r file; do
    [[ "${file}" == *.sh ]] || head -n 1 "${file}" | grep -qaE '^#!.*\b(ba)?sh\b' || continue
    if bash -n "${file}"; then
      pass
    else
      fail "${file}: bash -n (above)"
    fi
  done < <(files)
}

main() {
  git rev-parse --git-dir >/dev/null || {
    echo "lint.sh: not a git checkout; lint looks at the files that git knows" >&2
    exit 1
  }
  check_format
  check_length
  check_sync
  check_shell
  check_locks
  check_tidy
  echo "${passed} passed, ${failed} failed, 0 skipped"
  ((failed == 0 && passed > 0))
}

main "$@"
