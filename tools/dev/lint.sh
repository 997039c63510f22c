#!/bin/bash
#
# Checks the sources without running them: formatting, clang-tidy, which lock guards what, length
# of files, pairs of SYNC marks, syntax of shell scripts, how documents are written, spelling, and
# the subjects of commits that BASE (origin/main, where there is one) lacks. Looks at files that git
# tracks or would add. Each check of one file or commit counts; the last line is
# `N passed, N failed, N skipped`. --no-tidy leaves out clang-tidy, which takes minutes.
#
#     lint.sh [--no-tidy] [BASE]

set -euo pipefail

cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."

# The flags of the build, as far as clang needs them; the packages' include path is `.`.
readonly TIDY_FLAGS='-std=c++20 -Wall -Wextra -Wthread-safety -I. -Iurma/include'
# Files that clang reads as one.
readonly FILES_TOGETHER=12
readonly MAX_LINES=800
# The start of a commit subject: `area: what it does`.
readonly SUBJECT='^[a-z0-9][a-z0-9_.-]*: .+$'
readonly MAX_SUBJECT=60
# Words of this project, and of interfaces, that codespell takes for misspellings.
readonly WORDS=cna,crate,deactive,fro,hsa,kno,kown,maxinum,mininum,nin,ot,reacher,renderd,shwo,ue,ues,upto

passed=0
failed=0
skipped=0

pass() { passed=$((passed + 1)); }

skip() {
  skipped=$((skipped + 1))
  echo "SKIP $*"
}

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

# Lets clang read the files after $1 as one, since most read the same headers. If it finds
# something, or names of the files clash, it reads each half separately. Its output for a single
# file is left in the folder $1, in a file named after that one.
tidy_together() {
  local folder="$1" whole output
  shift
  whole="$(mktemp "${folder}/XXXXXX.cc")"
  printf '#include "%s"\n' "$@" >"${whole}"
  output="$(clang-tidy --quiet --config-file=.clang-tidy "${whole}" -- ${TIDY_FLAGS} \
    2>/dev/null)" && return
  if (($# == 1)); then
    echo "${output}" >"${folder}/${1//\//__}.said"
  else
    tidy_together "${folder}" "${@:1:$#/2}"
    tidy_together "${folder}" "${@:$#/2+1}"
  fi
}

# Prints lines of files to read together. Each line takes some from everywhere, since neighbours
# have constants of the same name; examples, which all do, are read alone.
lots() {
  files 'examples/*.cc'
  files '*.cc' ':!test/*' ':!examples/*' | awk -v together="${FILES_TOGETHER}" '
    { file[NR] = $0 }
    END {
      lots = int((NR + together - 1) / together)
      for (lot = 1; lot <= lots; ++lot) {
        line = file[lot]
        for (i = lot + lots; i <= NR; i += lots) line = line " " file[i]
        print line
      }
    }'
}

# The library and the tools, for clang-tidy and for the lock annotations of urma/base/mutex.h; the
# tests' macros cost minutes and show nothing of the code.
check_tidy() {
  local folder file
  folder="$(mktemp -d)"
  export -f tidy_together
  export TIDY_FLAGS
  lots | xargs -P "$(nproc)" -L 1 bash -c 'tidy_together "$@"' lint "${folder}"
  while read -r file; do
    if [[ -e "${folder}/${file//\//__}.said" ]]; then
      fail "${file}: clang-tidy"
      cat "${folder}/${file//\//__}.said"
    else
      pass
    fi
  done < <(files '*.cc' ':!test/*')
  rm -rf "${folder}"
}

# The ABI and tests may be of any length; production code that is too long for a reader is split.
check_length() {
  local file lines
  while read -r file; do
    case "${file}" in
      urma/include/* | docs/reference/errors.md | test/* | *.svg) continue ;;
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

# Places that must change together share a named SYNC mark.
check_sync() {
  local count mark
  while read -r count mark; do
    if ((count >= 2)); then
      pass
    else
      fail "${mark} occurs only once: $(files | xargs grep -lF "${mark}")"
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

# Counts the files on stdin by a tool's output, $1, whose lines begin with the file's name.
count_said() {
  local said="$1" file lines
  while read -r file; do
    if lines="$(grep -F "${file}:" <<<"${said}" | grep "^${file//./\\.}:")"; then
      fail "${lines}"
    else
      pass
    fi
  done
}

check_format() {
  local sources=('*.c' '*.cc' '*.h' '*.hpp')
  count_said "$(files "${sources[@]}" | xargs clang-format --dry-run -Werror 2>&1)" \
    < <(files "${sources[@]}")
}

check_prose() {
  local documents=('docs/*.md' CONTRIBUTING.md SECURITY.md)
  count_said "$(files "${documents[@]}" | xargs tools/dev/prose.py)" < <(files "${documents[@]}")
}

check_spelling() {
  local texts=(':!third_party' ':!*.svg' ':!*.gz')
  count_said "$(files "${texts[@]}" | xargs codespell --ignore-words-list "${WORDS}")" \
    < <(files "${texts[@]}")
}

check_subjects() {
  local base="${1:-origin/main}" commit subject
  if ! git rev-parse --quiet --verify "${base}^{commit}" >/dev/null; then
    skip "subjects of commits: git has no commit ${base}; name one: ./dev lint BASE"
    return
  fi
  while read -r commit subject; do
    if ((${#subject} <= MAX_SUBJECT)) && [[ "${subject}" =~ ${SUBJECT} ]]; then
      pass
    else
      fail "commit ${commit}: '${subject}' is not 'area: what it does' in ${MAX_SUBJECT} characters"
    fi
  done < <(git log --no-merges --format='%h %s' "${base}..HEAD")
}

main() {
  local tidy=1
  if [[ "${1:-}" == --no-tidy ]]; then
    tidy=0
    shift
  fi
  git rev-parse --git-dir >/dev/null || {
    echo "lint.sh: not a git checkout; lint checks the files that git tracks" >&2
    exit 1
  }
  local tool
  for tool in clang-format codespell; do
    command -v "${tool}" >/dev/null || fail "${tool} is not installed; run ./dev setup"
  done
  check_format
  check_length
  check_sync
  check_shell
  check_prose
  check_spelling
  check_subjects "$@"
  ((!tidy)) || check_tidy
  echo "${passed} passed, ${failed} failed, ${skipped} skipped"
  ((failed == 0 && passed > 0))
}

main "$@"
