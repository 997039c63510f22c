// SPDX-License-Identifier: MIT
//
// Importing and binding, at once and in the background; token ids and segments.
#include <algorithm>
#include <cerrno>

#include "test/model/model.h"

namespace urma_model {
namespace {

constexpr size_t kDescriptor = 48;  // of a jetty and of a segment

bool is_mode(uint32_t mode) {
  return mode == URMA_TM_RM || mode == URMA_TM_RC || mode == URMA_TM_UM;
}

bool order_fits(const Config& c) {
  switch (c.order) {
    case URMA_DEF_ORDER:
      return true;
    case URMA_OT:
    case URMA_OL:
      return c.mode == URMA_TM_RC;
    case URMA_OI:
      return c.mode == URMA_TM_RM;
    case URMA_NO:
      return c.mode != URMA_TM_RM;
    default:
      return false;
  }
}

uint32_t default_order(uint32_t mode) {
  return mode == URMA_TM_RM ? URMA_OI : mode == URMA_TM_RC ? URMA_OL : URMA_NO;
}

uint32_t resolved(const Config& c) {
  return c.order != URMA_DEF_ORDER ? c.order : default_order(c.mode);
}

// Config::access is the channel type of an import.
bool channel_fits(const Config& c) {
  return c.access == URMA_CTP || c.access == (c.mode == URMA_TM_UM ? URMA_UTP : URMA_RTP);
}

bool access_fits(uint32_t access) {
  const bool read = (access & URMA_ACCESS_READ) != 0, write = (access & URMA_ACCESS_WRITE) != 0;
  const bool atomic = (access & URMA_ACCESS_ATOMIC) != 0;
  if ((access & URMA_ACCESS_LOCAL_ONLY) != 0) return !read && !write && !atomic;
  return (!write || read) && (!atomic || (read && write));
}

}  // namespace

Answer Model::import_target(const Call& c) {
  const bool as_jfr = c.fn == Fn::urma_import_jfr || c.fn == Fn::urma_import_jfr_ex;
  const bool over_channel = c.fn == Fn::urma_import_jfr_ex || c.fn == Fn::urma_import_jetty_ex;
  if (!usable(c.on, Kind::kContext, c)) return undefined();
  const Object* original = find(c.other);
  if (original == nullptr || !original->active) return undefined();
  const Kind wanted = c.number == URMA_JFR     ? Kind::kJfr
                      : c.number == URMA_JETTY ? Kind::kJetty
                                               : Kind::kGroup;
  if (original->kind != wanted || (as_jfr && wanted != Kind::kJfr)) return undefined();
  const bool no_token = (c.nulls & kSecondNull) != 0;
  if (c.on == kNull || (c.nulls & kFirstNull) != 0) return null();
  if (over_channel && c.nulls != 0) return null();
  if (as_jfr && c.config.policy != URMA_TOKEN_NONE && no_token) return null();
  if (!is_mode(c.config.mode) || c.config.policy > URMA_TOKEN_PLAIN_TEXT) return null();
  if (c.config.mode == URMA_TM_RC && wanted != Kind::kJetty) return null();
  if (c.config.mode != URMA_TM_RM && wanted == Kind::kGroup) return null();
  const bool fits = order_fits(c.config) && channel_fits(c.config);
  if (!fits && (as_jfr || over_channel)) return undefined();
  if (!fits) return null();
  return succeed(
      [this, c, as_jfr, no_token](const Result&) { add_target(c, c.on, as_jfr, no_token); }, 1);
}

void Model::add_target(const Call& c, int context, bool as_jfr, bool no_token) {
  const Object& original = objects[c.other];
  Object target;
  target.kind = Kind::kTarget;
  target.process = c.process;
  target.context = context;
  target.config = c.config;
  if (no_token) target.config.token = 0;
  target.config.order = resolved(c.config);
  target.id = original.id;
  target.original = c.other;
  target.original_process = original.process;
  target.original_kind = original.kind;
  target.imported_as_jfr = as_jfr;
  objects[c.made] = target;
}

Answer Model::unimport_target(const Call& c) {
  const bool background = c.fn == Fn::urma_unimport_jetty_async;
  if (!usable(c.on, Kind::kTarget, c)) return undefined();
  if (c.on == kNull) return refuse({URMA_EINVAL});
  const Object& target = objects[c.on];
  const bool as_jfr = c.fn == Fn::urma_unimport_jfr;
  if (target.in_background != background || target.imported_as_jfr != as_jfr || !target.notified ||
      waits_for(c.on)) {
    return undefined();
  }
  if (target.bound != kNull) return refuse({URMA_FAIL});
  return succeed([this, c](const Result&) { erase(c.on); });
}

Answer Model::advise(const Call& c, Kind kind) {
  if (!usable(c.on, kind, c) || !usable(c.other, Kind::kTarget, c)) return undefined();
  if (c.on == kNull || c.other == kNull || c.nulls != 0) return refuse({URMA_EINVAL});
  const Object &queue = objects[c.on], &target = objects[c.other];
  if (!queue.active || !target.notified) return undefined();
  if (queue.config.mode != URMA_TM_RM || target.config.mode != URMA_TM_RM) {
    return refuse({URMA_EINVAL});
  }
  if (queue.context == target.context) return succeed();
  return c.fn == Fn::urma_advise_jfr_async ? refuse({URMA_EINVAL}) : undefined();
}

Answer Model::bind(const Call& c, int on, int to, bool background) {
  if (!usable(on, Kind::kJetty, c) || !usable(to, Kind::kTarget, c)) return undefined();
  if (on == kNull || to == kNull || c.nulls != 0) return refuse({URMA_EINVAL});
  const Object &jetty = objects[on], &target = objects[to];
  if (!jetty.active || !target.notified || jetty.context != target.context) return undefined();
  if (jetty.config.mode != URMA_TM_RC || target.config.mode != URMA_TM_RC ||
      resolved(jetty.config) != resolved(target.config)) {
    return refuse({URMA_ENOPERM});
  }
  const auto tell = [this, c, on](const Result&) {
    objects[on].notified = false;
    Record news;
    news.owner = on;
    news.user_ctx = c.value;
    news.opcode = URMA_BIND_JETTY_NOTIFY;
    objects[c.on].news.push_back(news);
  };
  if (jetty.bound == to) {
    if (!background) return succeed();
    // Which of two pending results is reported first is open.
    return jetty.notified ? succeed(tell) : undefined();
  }
  if (jetty.bound != kNull) return refuse({URMA_EEXIST});
  if (target.bound != kNull) return refuse({URMA_EINVAL});
  if (background) {
    const Object* peer = find(target.original);
    if (peer == nullptr || peer->id != target.id ||
        !answers_probes(target.original, target.config)) {
      return undefined();
    }
  }
  return succeed([this, on, to, background, tell](const Result& result) {
    objects[on].bound = to;
    objects[on].in_background = background;
    objects[to].bound = on;
    if (background) tell(result);
  });
}

Answer Model::unbind(const Call& c, bool background) {
  if (!usable(c.on, Kind::kJetty, c)) return undefined();
  if (c.on == kNull || objects[c.on].bound == kNull) return refuse({URMA_EINVAL});
  const Object& jetty = objects[c.on];
  if (jetty.in_background != background || !jetty.notified) return undefined();
  // Messages of its peer would wait for a new bind, for some time.
  const bool awaited = std::any_of(objects.begin(), objects.end(), [&](const auto& entry) {
    return std::any_of(entry.second.waiting.begin(), entry.second.waiting.end(),
                       [&](const Waiting& one) { return one.target == c.on; });
  });
  if (awaited || jetty.state == URMA_JETTY_STATE_SUSPENDED) return undefined();
  return succeed([this, c](const Result&) {
    Object& loose = objects[c.on];
    objects[loose.bound].bound = kNull;
    loose.bound = kNull;
    loose.in_background = false;
    for (const Waiting& one : std::exchange(loose.waiting, {})) {
      complete_send(c.on, one.request, {URMA_CR_WR_FLUSH_ERR});
    }
  });
}

Answer Model::target(const Call& c) {
  switch (c.fn) {
    case Fn::urma_unimport_jfr:
    case Fn::urma_unimport_jetty:
      return unimport_target(c);
    case Fn::urma_advise_jfr:
    case Fn::urma_advise_jfr_async:
    case Fn::urma_unadvise_jfr:
      return advise(c, Kind::kJfs);
    case Fn::urma_advise_jetty:
    case Fn::urma_unadvise_jetty:
      return advise(c, Kind::kJetty);
    case Fn::urma_bind_jetty:
    case Fn::urma_bind_jetty_ex:
      return bind(c, c.on, c.other, false);
    case Fn::urma_unbind_jetty:
      return unbind(c, false);
    case Fn::urma_get_rjetty:
    case Fn::urma_get_tpn: {
      if (!usable(c.on, Kind::kJetty, c)) return undefined();
      const bool tpn = c.fn == Fn::urma_get_tpn;
      if (c.on == kNull || c.nulls != 0) return refuse({tpn ? -URMA_EINVAL : URMA_EINVAL});
      if (!objects[c.on].active) return undefined();
      // Only bound ones have a channel of their own.
      if (tpn && objects[c.on].bound == kNull) return refuse({-URMA_EINVAL});
      Answer answer = succeed();
      if (tpn) answer.values.clear();
      answer.check = [id = objects[c.on].id, tpn](const Result& r) {
        if (tpn) return std::string(r.value < 0 ? "a negative number; " : "");
        return differs("the id", id, r.out2) + (r.out < kDescriptor ? "too short; " : "");
      };
      return answer;
    }
    default:
      return import_target(c);
  }
}

Answer Model::notify(const Call& c) {
  switch (c.fn) {
    case Fn::urma_create_notifier:
      if (!usable(c.on, Kind::kContext, c)) return undefined();
      if (c.on == kNull) return null();
      return succeed([this, c](const Result&) { objects[c.made] = describe(c, Kind::kNotifier); },
                     1);
    case Fn::urma_delete_notifier: {
      const Object* notifier = find(c.on);
      // Whether an import that has just succeeded still counts as pending is unknown.
      if (notifier != nullptr && !notifier->news.empty()) return undefined();
      return simple_end(c, Kind::kNotifier, URMA_EAGAIN, false);
    }
    case Fn::urma_import_jetty_async:
      return import_in_background(c);
    case Fn::urma_unimport_jetty_async:
      return unimport_target(c);
    case Fn::urma_bind_jetty_async:
      if (!usable(c.on, Kind::kNotifier, c)) return undefined();
      if (c.on == kNull) return refuse({URMA_EINVAL});
      if (c.other != kNull && find(c.other) != nullptr &&
          find(c.other)->context != objects[c.on].context) {
        return undefined();
      }
      return bind(c, c.other, c.more, true);
    case Fn::urma_unbind_jetty_async:
      return unbind(c, true);
    case Fn::urma_wait_notify:
      return wait_notify(c);
    default:  // urma_ack_notify
      if (!usable(c.on, Kind::kContext, c)) return undefined();
      return c.on == kNull || c.nulls != 0 ? refuse({URMA_EINVAL}) : succeed();
  }
}

// Whether a background request is certain to find this jetty.
bool Model::answers_probes(int jetty, const Config& asked) const {
  const Object& o = *find(jetty);
  const Object& jfr = *find(o.jfr);
  return o.active && o.state == URMA_JETTY_STATE_READY && jfr.state == URMA_JFR_STATE_READY &&
         o.config.mode == asked.mode && jfr.config.policy == asked.policy &&
         jfr.config.token == asked.token;
}

// Whether someone asks for it just now.
bool Model::probed(int slot) const {
  return std::any_of(objects.begin(), objects.end(), [&](const auto& entry) {
    if (entry.second.notified) return false;
    const Object* target =
        entry.second.kind == Kind::kTarget ? &entry.second : find(entry.second.bound);
    return target != nullptr && (target->original == slot || jfr_of(target->original) == slot);
  });
}

Answer Model::import_in_background(const Call& c) {
  if (!usable(c.on, Kind::kNotifier, c)) return undefined();
  if (c.on == kNull || c.nulls != 0) return null();
  const Object* original = find(c.other);
  if (original == nullptr || original->kind != Kind::kJetty || !original->active ||
      c.number != URMA_JETTY) {
    return undefined();
  }
  if (!is_mode(c.config.mode) || !order_fits(c.config) || !channel_fits(c.config)) return null();
  // What is wrong with the jetty or the token may be reported here, or at the first request.
  if (!answers_probes(c.other, c.config)) return undefined();
  return succeed(
      [this, c](const Result&) {
        add_target(c, objects[c.on].context, false, false);
        objects[c.made].in_background = true;
        objects[c.made].notified = false;
        Record news;
        news.owner = c.made;
        news.user_ctx = c.value;
        news.opcode = URMA_IMPORT_JETTY_NOTIFY;
        objects[c.on].news.push_back(news);
      },
      1);
}

Answer Model::wait_notify(const Call& c) {
  if (!usable(c.on, Kind::kNotifier, c)) return undefined();
  if (c.on == kNull || c.nulls != 0) return refuse({-1});
  if (c.number == 0) return succeed();
  Answer answer = succeed();
  const auto most = std::min<int64_t>(c.number, static_cast<int64_t>(objects[c.on].news.size()));
  answer.values.clear();
  for (int64_t n = std::min<int64_t>(1, most); n <= most; ++n) answer.values.push_back(n);
  answer.check = [this, c](const Result& r) -> std::string {
    for (int i = 0; i < r.count; ++i) {
      const Record& got = r.record[static_cast<size_t>(i)];
      std::deque<Record>& news = objects[c.on].news;
      const auto found = std::find_if(news.begin(), news.end(), [&](const Record& one) {
        return one.owner == got.owner && one.user_ctx == got.user_ctx && one.opcode == got.opcode;
      });
      if (found == news.end())
        return "a result that nobody asked for: " + urma_model::describe(got);
      if (got.status != URMA_SUCCESS)
        return differs("the result", 0, static_cast<uint64_t>(got.status));
      objects[got.owner].notified = true;
      news.erase(found);
    }
    return {};
  };
  return answer;
}

// -------------------------------------------------------------------------------------------------
// Segments
// -------------------------------------------------------------------------------------------------

Answer Model::segment(const Call& c) {
  switch (c.fn) {
    case Fn::urma_alloc_token_id:
    case Fn::urma_alloc_token_id_ex:
      if (!usable(c.on, Kind::kContext, c)) return undefined();
      if (c.on == kNull) return null();
      return succeed(
          [this, c](const Result& r) {
            objects[c.made] = describe(c, Kind::kToken);
            objects[c.made].id = r.id;
            // Several segments may share it.
            objects[c.made].config.depth =
                c.fn == Fn::urma_alloc_token_id_ex && c.number == 1 ? 2 : 1;
          },
          1);
    case Fn::urma_free_token_id: {
      const bool used = std::any_of(objects.begin(), objects.end(), [&](const auto& entry) {
        return c.on != kNull && entry.second.token == c.on;
      });
      return simple_end(c, Kind::kToken, URMA_EINVAL, used);
    }
    case Fn::urma_register_seg:
      return register_segment(c);
    case Fn::urma_import_seg:
      return import_segment(c);
    case Fn::urma_unregister_seg:
      return waits_for(c.on) ? undefined() : simple_end(c, Kind::kSegment, URMA_EAGAIN, false);
    case Fn::urma_unimport_seg:
      return simple_end(c, Kind::kImport, URMA_EAGAIN, false);
    default: {  // urma_get_seg_ctx
      if (!usable(c.on, Kind::kSegment, c)) return undefined();
      if (c.on == kNull || c.nulls != 0) return refuse({URMA_EINVAL});
      Answer answer = succeed();
      answer.check = [length = objects[c.on].config.length](const Result& r) {
        return differs("the length", length, r.out2) + (r.out < kDescriptor ? "too short; " : "");
      };
      return answer;
    }
  }
}

Answer Model::register_segment(const Call& c) {
  if (!usable(c.on, Kind::kContext, c) || !usable(c.other, Kind::kToken, c)) return undefined();
  const Object* token = find(c.other);
  if (token != nullptr && c.on != kNull && token->context != c.on) return undefined();
  if (c.config.length == 0 || c.config.at + c.config.length > kArena) return undefined();
  if (c.on == kNull || c.nulls != 0 || c.number == 1 ||
      c.config.token_given != (token != nullptr) || !access_fits(c.config.access) ||
      c.config.policy > URMA_TOKEN_PLAIN_TEXT) {
    return null();
  }
  const bool shared = std::any_of(objects.begin(), objects.end(), [&](const auto& entry) {
    return token != nullptr && entry.second.token == c.other;
  });
  // Whether a second segment is refused if the token id is for one only is unspecified.
  if (shared && token->config.depth == 1) return undefined();
  return succeed(
      [this, c](const Result& r) {
        Object segment = describe(c, Kind::kSegment);
        segment.jfc = kNull;
        segment.token = c.other;
        segment.id = r.id;
        objects[c.made] = segment;
      },
      1);
}

Answer Model::import_segment(const Call& c) {
  if (!usable(c.on, Kind::kContext, c)) return undefined();
  const Object* original = find(c.other);
  if (original == nullptr || original->kind != Kind::kSegment) return undefined();
  const bool no_token = (c.nulls & kSecondNull) != 0;
  if (c.on == kNull || (c.nulls & kFirstNull) != 0 ||
      (c.config.policy != URMA_TOKEN_NONE && no_token) || c.config.policy > URMA_TOKEN_PLAIN_TEXT) {
    return null();
  }
  if (original->config.at != c.config.at || original->config.length != c.config.length) {
    return undefined();
  }
  return succeed(
      [this, c, no_token](const Result&) {
        add_target(c, c.on, false, no_token);
        objects[c.made].kind = Kind::kImport;
      },
      1);
}

bool Model::waits_for(int slot) const {
  if (slot == kNull) return false;
  return std::any_of(objects.begin(), objects.end(), [&](const auto& entry) {
    return std::any_of(entry.second.waiting.begin(), entry.second.waiting.end(),
                       [&](const Waiting& one) {
                         return one.request.target == slot || one.request.local == slot ||
                                entry.second.bound == slot;
                       });
  });
}

}  // namespace urma_model
