# SPDX-License-Identifier: MIT
#
# For tests of documents whose blocks are programs: `page` names the document.

# Prints the blocks of the page, or of another FILE, that are marked with a word.
block() {
  local text
  text="$(awk -v mark="\`\`\`$1" '$0 == mark { on = 1; next } /^```$/ { on = 0 } on' "${2:-${page}}")"
  [[ -n "${text}" ]] || { echo "the page has no block $1" >&2; exit 1; }
  echo "${text}"
}

# Runs the page's server and its client, in this folder: both print what the page says.
expect_server_and_client() {
  local line
  mkfifo told
  timeout 60 bash -c "exec $(block server)" >told &
  server=$!
  exec 3<told
  read -r line <&3
  [[ "${line}" == ready ]]
  [[ "$(timeout 60 bash -c "$(block client)")" == sent ]]
  printf '%s\n' "${line}" "$(cat <&3)" | diff <(block output) -
  wait "${server}"
}
