// SPDX-License-Identifier: MIT
#include "urma/core/process/living.h"

#include <utility>

#include "urma/base/log.h"
#include "urma/base/mutex.h"

namespace urma::core {
namespace {

constexpr std::array kKindNames = {"JFCE",
                                   "JFC",
                                   "JFS",
                                   "JFR",
                                   "jetty",
                                   "group",
                                   "token id",
                                   "segment",
                                   "imported segment",
                                   "imported queue",
                                   "notifier"};

static_assert(kKindNames.size() == std::tuple_size_v<LivingCounts>);

struct LivingTable {
  Mutex mutex;
  LivingContexts contexts URMA_GUARDED_BY(mutex);
};

// Never destroyed: a program may leave with its threads still at work.
LivingTable& table() {
  static auto& the_table = *new LivingTable;
  return the_table;
}

void count(urma_context_t* ctx, Living kind, uint32_t change) {
  auto& living = table();
  const MutexLock lock(living.mutex);
  const auto found = living.contexts.find(ctx);
  if (found != living.contexts.end()) found->second[static_cast<size_t>(kind)] += change;
}

std::string text_of(const LivingCounts& counts) {
  std::string text;
  for (size_t kind = 0; kind < counts.size(); ++kind) {
    if (counts[kind] == 0) continue;
    text += urma::format("{}{} {}", text.empty() ? "" : ", ", counts[kind], kKindNames[kind]);
  }
  return text.empty() ? "no object" : text;
}

}  // namespace

void context_made(urma_context_t* ctx) {
  auto& living = table();
  const MutexLock lock(living.mutex);
  living.contexts[ctx] = {};
}

LivingContexts::node_type context_ends(urma_context_t* ctx) {
  auto& living = table();
  const MutexLock lock(living.mutex);
  return living.contexts.extract(ctx);
}

void context_lives_on(LivingContexts::node_type context) {
  auto& living = table();
  const MutexLock lock(living.mutex);
  living.contexts.insert(std::move(context));
}

void object_made(urma_context_t* ctx, Living kind) {
  add_ref(ctx->ref);
  count(ctx, kind, 1);
}

void object_ended(urma_context_t* ctx, Living kind) {
  count(ctx, kind, UINT32_MAX);
  drop_ref(ctx->ref);
}

std::string living_objects(urma_context_t* ctx) {
  auto& living = table();
  const MutexLock lock(living.mutex);
  const auto found = living.contexts.find(ctx);
  return text_of(found == living.contexts.end() ? LivingCounts{} : found->second);
}

void abandon_living() {
  auto& living = table();
  LivingContexts left;
  {
    const MutexLock lock(living.mutex);
    left.swap(living.contexts);
  }
  for (const auto& [ctx, counts] : left) {
    URMA_LOG(
        WARNING,
        "urma_uninit: a context of device {} still lives, with {}; calls on them fail from now "
        "on: end them first, then the context",
        ctx->dev->name, text_of(counts));
    ctx->ops = nullptr;
    ctx->dev = nullptr;
  }
}

}  // namespace urma::core
