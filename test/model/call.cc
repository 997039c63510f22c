// SPDX-License-Identifier: MIT
#include "test/model/call.h"

#include <utility>

#include "third_party/fmt/format.h"

namespace urma_model {
namespace {

// What differs from the default.
std::string describe(const Config& c) {
  static const Config kPlain;
  std::string text;
  const auto field = [&](const char* name, uint32_t Config::*member) {
    if (c.*member != kPlain.*member) text += urma::format("{} {:#x}, ", name, c.*member);
  };
  field("depth", &Config::depth);
  field("mode", &Config::mode);
  field("order", &Config::order);
  field("policy", &Config::policy);
  field("token", &Config::token);
  field("id", &Config::id);
  field("sge", &Config::sge);
  field("inline", &Config::inline_data);
  field("rnr_retry", &Config::rnr_retry);
  field("access", &Config::access);
  field("at", &Config::at);
  field("length", &Config::length);
  if (!c.non_blocking) text += "blocking, ";
  if (!c.share_jfr) text += "share_jfr 0, ";
  if (c.token_given) text += "token_id_valid, ";
  return text;
}

std::string describe(const Request& r) {
  std::string text =
      urma::format("\n      {{opcode {:#x}, user_ctx {}, {} bytes in {} pieces of #{} at {}",
                   static_cast<int>(r.opcode), r.user_ctx, r.length, r.pieces, r.local, r.at);
  if (r.target != kNull) text += urma::format(", to #{}", r.target);
  if (r.remote != kNull) text += urma::format(", remote #{} at {}", r.remote, r.remote_at);
  if (r.operand != 0) text += urma::format(", operand {:#x}", r.operand);
  if (r.swap != 0) text += urma::format(", swap {:#x}", r.swap);
  for (const auto& [set, name] : {std::pair(!r.signalled, "unsignalled"),
                                  {r.solicited, "solicited"},
                                  {r.fence, "fence"},
                                  {r.inlined, "inline"}}) {
    if (set) text += urma::format(", {}", name);
  }
  return text + "}";
}

}  // namespace

const char* name_of(Fn fn) {
  static constexpr const char* kNames[] = {
#define X(name) #name,
#include "test/process/urma_api_names.inc"
#undef X
  };
  return kNames[static_cast<size_t>(fn)];
}

std::string describe(const Call& call) {
  std::string text = urma::format("{}: {}(", call.process == 0 ? 'A' : 'B', name_of(call.fn));
  const auto slot = [&](const char* name, int value) {
    if (value != kNull) text += urma::format("{} #{}, ", name, value);
  };
  slot("on", call.on);
  slot("other", call.other);
  slot("more", call.more);
  slot("extra", call.extra);
  slot("group", call.group);
  if (call.nulls != 0) text += urma::format("NULLs {:#x}, ", call.nulls);
  if (call.number != 0) text += urma::format("number {}, ", call.number);
  if (call.value != 0) text += urma::format("value {:#x}, ", call.value);
  if (call.wait_for != 0) text += urma::format("until {} records, ", call.wait_for);
  text += describe(call.config);
  for (size_t i = 0; i < call.requests; ++i) text += describe(call.request[i]);
  if (text.ends_with(", ")) text.resize(text.size() - 2);
  text += ")";
  if (call.made != kNull) text += urma::format(" -> #{}", call.made);
  return text;
}

std::string describe(const Record& r) {
  return urma::format(
      "{{of #{}, status {}, user_ctx {}, s_r {}, jetty {}, opcode {:#x}, length {}, local_id {:#x},"
      " remote_id {:#x}, imm {:#x}{}{}}}",
      r.owner, r.status, r.user_ctx, r.receive ? 1 : 0, r.jetty ? 1 : 0, r.opcode, r.length,
      r.local_id, r.remote_id, r.immediate, r.flush_done ? ", flush_err_done" : "",
      r.suspend_done ? ", suspend_done" : "");
}

}  // namespace urma_model
