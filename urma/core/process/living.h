// SPDX-License-Identifier: MIT
//
// The living objects of each open context, counted by kind; and the reference counts of objects.
#ifndef URMA_CORE_PROCESS_LIVING_H_
#define URMA_CORE_PROCESS_LIVING_H_

#include <array>
#include <cstdint>
#include <map>
#include <string>

#include "urma_types.h"

namespace urma::core {

inline void add_ref(urma_ref_t& ref) { ref.atomic_cnt.fetch_add(1, std::memory_order_relaxed); }
// Pairs with the acquire load of the thread that ends the object.
inline void drop_ref(urma_ref_t& ref) { ref.atomic_cnt.fetch_sub(1, std::memory_order_release); }
inline unsigned long refs(const urma_ref_t& ref) {
  return ref.atomic_cnt.load(std::memory_order_acquire);
}

enum class Living : uint8_t {
  kJfce,
  kJfc,
  kJfs,
  kJfr,
  kJetty,
  kGroup,
  kTokenId,
  kSegment,
  kImportedSegment,
  kImportedQueue,
  kNotifier,
};

using LivingCounts = std::array<uint32_t, static_cast<size_t>(Living::kNotifier) + 1>;
using LivingContexts = std::map<urma_context_t*, LivingCounts>;

// Called by urma_create_context and urma_delete_context. A context is taken out before its provider
// frees it, since afterwards another may have its address; it is put back if it lives on.
void context_made(urma_context_t* ctx);
LivingContexts::node_type context_ends(urma_context_t* ctx);
void context_lives_on(LivingContexts::node_type context);

// One object more, or less, of a context: in its reference count, and by kind.
void object_made(urma_context_t* ctx, Living kind);
void object_ended(urma_context_t* ctx, Living kind);

// As "2 JFC, 1 jetty".
std::string living_objects(urma_context_t* ctx);

// Called by urma_uninit: logs what still lives, and shuts the gate for all calls on it. The
// providers have ended; the devices still exist.
void abandon_living();

}  // namespace urma::core

#endif  // URMA_CORE_PROCESS_LIVING_H_
