# The parts of a job; runs in the guest. To be sourced.

ulimit -l unlimited -n "$(ulimit -Hn)"

# Runs the case NAME: COMMAND, for at most SECONDS. Writes its result to files in /out that are
# named after its NUMBER, and prints it. Returns its status.
run_case() {
  local number="$1" seconds="$2" name="$3" status=0 start
  shift 3
  echo "[ RUN      ] ${name}"
  start="${EPOCHREALTIME/./}"
  GTEST_OUTPUT="xml:/out/${number}.xml" timeout --kill-after=10 "${seconds}" "$@" \
    >"/out/${number}.log" 2>&1 </dev/null || status=$?
  local milliseconds=$(((${EPOCHREALTIME/./} - start) / 1000))
  echo "${status} ${milliseconds}" >"/out/${number}.status"
  case "${status}" in
    0) echo "[       OK ] ${name} (${milliseconds} ms)" ;;
    124 | 137) echo "[  FAILED  ] ${name} (over its limit of ${seconds} s)" ;;
    *) echo "[  FAILED  ] ${name} (${milliseconds} ms, status ${status})" ;;
  esac
  return "${status}"
}
