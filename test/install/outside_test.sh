#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Programs outside the tree against an installation: found by pkg-config and by CMake, in C and in
# C++. Then the installation is moved, since the CMake package has relative paths. Also checks the
# manual pages and the versions.
set -euo pipefail

source test/install/installed.sh
readonly prefix="${TEST_TMPDIR}/installed" work="${TEST_TMPDIR}/work"
install_built "${prefix}"
mkdir -p "${work}"
export URMA_RUNTIME_DIR="${TEST_TMPDIR}/runtime" LD_LIBRARY_PATH="${prefix}/lib"

cat >"${work}/program.c" <<'END'
#include <stdio.h>
#include <string.h>

#include "urma_api.h"
#include "urma_ext.h"

/* Valid as C and as C++. Says the version, and fails where there is no device. */
int main(void) {
  int count = 0;
  if (urma_init(NULL) != URMA_SUCCESS) return 1;
  urma_device_t** list = urma_get_device_list(&count);
  urma_free_device_list(list);
  printf("%s\n", urma_ext_version());
  return urma_uninit() == URMA_SUCCESS && count > 0 ? 0 : 2;
}
END
cp "${work}/program.c" "${work}/program.cc"

export PKG_CONFIG_PATH="${prefix}/lib/pkgconfig"
version="$(pkg-config --modversion urma)"
read -ra flags <<<"$(pkg-config --cflags --libs urma)"
cc -std=c11 -Wall -Werror -o "${work}/in_c" "${work}/program.c" "${flags[@]}"
c++ -std=c++17 -Wall -Werror -o "${work}/in_cxx" "${work}/program.cc" "${flags[@]}"
[[ "$("${work}/in_c")" == "${version}" ]]
[[ "$("${work}/in_cxx")" == "${version}" ]]

# urma.hpp: one message from a jetty to itself, asleep until it arrives. Handles move, end once, and
# throw if a call returned NULL; a wait without an event returns none.
cat >"${work}/guest.cc" <<'END'
#include <cstdio>

#include "urma.hpp"

static urma_jfc_t* make_jfc(urma_context_t* context, urma_jfce_t* channel) {
  urma_jfc_cfg_t cfg = {};
  cfg.depth = 4;
  cfg.jfce = channel;
  return urma_create_jfc(context, &cfg);
}

static urma_jetty_t* make_jetty(urma_context_t* context, urma_jfr_t* jfr, urma_jfc_t* jfc) {
  urma_jetty_cfg_t cfg = {};
  cfg.flag.bs.share_jfr = URMA_SHARE_JFR;
  cfg.shared.jfr = jfr;
  cfg.jfs_cfg.depth = 4;
  cfg.jfs_cfg.trans_mode = URMA_TM_RM;
  cfg.jfs_cfg.max_sge = 1;
  cfg.jfs_cfg.jfc = jfc;
  return urma_create_jetty(context, &cfg);
}

static int expect(bool right, const char* what) {
  if (!right) std::printf("FAIL: %s\n", what);
  return right ? 0 : 1;
}

static int refusals(const urma::Context& context) {
  int wrong = 0;
  urma_jfc_cfg_t cfg = {};
  try {
    urma::Jfc none(urma_create_jfc(context, &cfg));
    wrong += expect(false, "a depth of 0 made a JFC");
  } catch (const urma::Failure& failure) {
    wrong += expect(failure.status() == EINVAL, "the status of a refusal");
  }
  try {
    urma::Library second;
    wrong += expect(false, "the library started twice");
  } catch (const urma::Failure& failure) {
    wrong += expect(failure.status() == URMA_EEXIST, "the status of a second start");
  }
  return wrong;
}

static int one_message(const urma::Context& context) {
  int wrong = 0;
  char text[] = "hello", place[sizeof text] = "";
  urma_seg_cfg_t text_cfg = {}, place_cfg = {};
  text_cfg.va = reinterpret_cast<uintptr_t>(text);
  place_cfg.va = reinterpret_cast<uintptr_t>(place);
  text_cfg.len = place_cfg.len = sizeof text;
  text_cfg.flag.bs.access = place_cfg.flag.bs.access = URMA_ACCESS_LOCAL_ONLY;
  urma::Segment from(urma_register_seg(context, &text_cfg));
  urma::Segment to(urma_register_seg(context, &place_cfg));
  urma::Jfce channel(urma_create_jfce(context));
  urma::Jfc sent(make_jfc(context, nullptr)), arrived(make_jfc(context, channel));
  urma_jfr_cfg_t jfr_cfg = {};
  jfr_cfg.depth = 4;
  jfr_cfg.trans_mode = URMA_TM_RM;
  jfr_cfg.max_sge = 1;
  jfr_cfg.jfc = arrived;
  urma::Jfr jfr(urma_create_jfr(context, &jfr_cfg));
  urma::Jetty jetty(make_jetty(context, jfr, sent));
  wrong += expect(jfr.end() != URMA_SUCCESS && jfr.get() != nullptr, "a shared JFR ended");

  urma_rjetty_t remote = {};
  remote.jetty_id = jetty->jetty_id;
  remote.trans_mode = URMA_TM_RM;
  remote.type = URMA_JETTY;
  urma::RemoteJetty first(urma_import_jetty(context, &remote, nullptr)), target;
  target = std::move(first);
  wrong += expect(first.get() == nullptr && target.get() != nullptr, "a handle that was moved");

  urma::check(urma_rearm_jfc(arrived, false), "arming");
  wrong += expect(urma::Events<2>(channel, 0).empty(), "an event before anything came");
  wrong += expect(urma::Completions<2>(arrived).empty(), "a record before anything came");
  urma_sge_t in = {place_cfg.va, sizeof place, to, nullptr};
  urma_jfr_wr_t receive = {}, *bad_receive;
  receive.src = {&in, 1};
  urma::check(urma_post_jetty_recv_wr(jetty, &receive, &bad_receive), "posting a receive");
  urma_sge_t out = {text_cfg.va, sizeof text, from, nullptr};
  urma_jfs_wr_t send = {}, *bad_send;
  send.opcode = URMA_OPC_SEND;
  send.tjetty = target;
  send.send.src = {&out, 1};
  urma::check(urma_post_jetty_send_wr(jetty, &send, &bad_send), "posting a send");
  {
    const urma::Events<2> events(channel);
    wrong += expect(events.size() == 1 && *events.begin() == arrived, "an event");
  }
  const urma::Completions<2> records(arrived);
  wrong += expect(records.size() == 1, "one record");
  for (const urma_cr_t& record : records) {
    wrong += expect(record.status == URMA_CR_SUCCESS && record.completion_len == sizeof text, "it");
  }
  wrong += expect(std::string(place) == "hello", "the text");
  wrong += expect(target.end() == URMA_SUCCESS && target.get() == nullptr, "an unimport");
  wrong += expect(target.end() == URMA_SUCCESS, "an unimport of nothing");
  return wrong;
}

int main() {
  urma::Library library;
  int wrong = expect(!urma::devices().empty(), "a device");
  for (urma_device_t* device : urma::devices()) {
    wrong += expect(!urma::eids(device).empty(), "an EID");
    urma::Context context(urma_create_context(device, urma::eids(device)[0].eid_index));
    wrong += refusals(context) + one_message(context);
    wrong += expect(context.end() == URMA_SUCCESS, "something of the context was left");
  }
  urma::Memory memory(urma_ext_alloc(4096, 0));
  return wrong;
}
END
for standard in c++17 c++20; do
  c++ "-std=${standard}" -Wall -Wextra -Werror -o "${work}/guest" "${work}/guest.cc" \
    "${flags[@]}"
  "${work}/guest"
done

# The rest uses a moved installation: what CMake finds must move along.
mv "${prefix}" "${prefix}.moved"
export LD_LIBRARY_PATH="${prefix}.moved/lib"
cat >"${work}/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.16)
project(outside C CXX)
find_package(urma ${version} REQUIRED)
add_executable(cmake_c program.c)
target_link_libraries(cmake_c PRIVATE urma::urma)
add_executable(cmake_cxx program.cc)
target_link_libraries(cmake_cxx PRIVATE urma::urma)
END
cmake -S "${work}" -B "${work}/build" -DCMAKE_PREFIX_PATH="${prefix}.moved" >"${work}/cmake.log" ||
  { cat "${work}/cmake.log"; exit 1; }
cmake --build "${work}/build" >"${work}/make.log" || { cat "${work}/make.log"; exit 1; }
[[ "$("${work}/build/cmake_c")" == "${version}" ]]
[[ "$("${work}/build/cmake_cxx")" == "${version}" ]]

# Letters of the folder that sed takes for more than letters.
readonly strange="${TEST_TMPDIR}/a&b|c\\d"
install_built "${strange}"
grep -xF "prefix=${strange}" "${strange}/lib/pkgconfig/urma.pc"

# Other versions, and ranges of them: `yes` if CMake takes this version for them.
finds() {
  rm -rf "${work}/ranges"
  mkdir "${work}/ranges"
  printf '%s\n' 'cmake_minimum_required(VERSION 3.19)' 'project(ranges NONE)' \
    "find_package(urma $1 REQUIRED)" >"${work}/ranges/CMakeLists.txt"
  cmake -S "${work}/ranges" -B "${work}/ranges/build" -DCMAKE_PREFIX_PATH="${prefix}.moved" \
    &>"${work}/cmake.log" && echo yes || echo no
}
for case in "${version} yes" "${version%.*} yes" '99.0 no' \
  "0...${version} yes" "0...<${version} no" "0.1...${version}.1 yes" "${version}...<99 yes" \
  '0.0.1...0.0.2 no' '98.0...99.0 no'; do
  [[ "$(finds "${case% *}")" == "${case#* }" ]] ||
    { cat "${work}/cmake.log"; echo "FAIL: not ${case#* } for find_package(urma ${case% *})"; exit 1; }
done

export MANPATH="${prefix}.moved/share/man" LC_ALL=C.UTF-8
man urma_modify_jfc | grep 'Changes when completions raise an event' >/dev/null
man 7 urma | grep CONCEPTS >/dev/null
