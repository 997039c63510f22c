// SPDX-License-Identifier: MIT
//
// The life cycles of JFC, JFS, JFR and jetty, written once: create and delete, batches of deletes,
// and alloc, set_opt, active, get_opt, deactive, free. Each kind has a struct (see QueueKind) for
// what differs.
//
// Who fills in a new object: the provider allocates it, sets its id and its own members, and frees
// it. Core then sets urma_ctx and is_actived, initialises event_mutex, event_cond and the counters
// of acknowledged events, sets remote_jetty of a jetty to NULL, and copies the configuration if the
// provider left its depth at 0. Core destroys nothing of this, since the memory is the provider's.
// A provider that raises requested values writes them, and the rest of the configuration, into the
// object itself.
//
// On failure everything is as it was before the call.
#ifndef URMA_CORE_API_LIFECYCLE_H_
#define URMA_CORE_API_LIFECYCLE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "urma/core/api/checks.h"
#include "urma/core/api/queue_ports.h"

namespace urma::core {

// -------------------------------------------------------------------------------------------------
// Hubs: what a queue belongs to besides its context. A NULL hub is ignored.
//   acquire: room for one member, before the provider is asked; it is counted from now on.
//   attach, detach: the member itself.
//   release: gives the room back.
// -------------------------------------------------------------------------------------------------

struct NoHub {};
inline urma_status_t acquire(const char*, NoHub*) { return URMA_SUCCESS; }
template <typename Object>
void attach(NoHub*, Object*) {}
template <typename Object>
void detach(NoHub*, Object*) {}
inline void release(NoHub*) {}

// The event channel of a JFC only counts its JFCs.
inline urma_status_t acquire(const char*, urma_jfce_t* jfce) {
  if (jfce != nullptr) add_ref(jfce->ref);
  return URMA_SUCCESS;
}
inline void attach(urma_jfce_t*, urma_jfc_t*) {}
inline void detach(urma_jfce_t*, urma_jfc_t*) {}
inline void release(urma_jfce_t* jfce) {
  if (jfce != nullptr) drop_ref(jfce->ref);
}

// The group of a jetty lists its members; see group.cc.
urma_status_t acquire(const char* call, urma_jetty_grp_t* group);
void attach(urma_jetty_grp_t* group, urma_jetty_t* jetty);
void detach(urma_jetty_grp_t* group, urma_jetty_t* jetty);
void release(urma_jetty_grp_t* group);

// -------------------------------------------------------------------------------------------------
// Kinds
// -------------------------------------------------------------------------------------------------

// Defaults of a kind. Besides these each kind has
//   Object, Config                        its types
//   kLiving                               how it is counted
//   kCreate ... kFree                     its operations
//   config(object), options(object)       its configuration and option record
//   depth(config)                         0: not filled in
//   option_table(), option_mask(object)
//   check_pointers(call, config)          for alloc
//   check(call, ctx, config)              for create and active
//   check_parts(call, object)             for active: its queues are active
//   settle(config)                        replaces URMA_DEF_ORDER
//   PortConfig                            its configuration with a list of ports behind it
struct QueueKind {
  using Hub = NoHub;
  static constexpr uint64_t kHubOption = 0;
  // Whether the provider is called for an option that is in no table.
  static constexpr bool kForeignOptions = false;

  template <typename Config>
  static NoHub* hub(const Config&) {
    return nullptr;
  }
  template <typename Object>
  static urma_status_t check_removable(const char*, const Object&) {
    return URMA_SUCCESS;
  }
  template <typename Object>
  static bool check_option(const char*, const Object&, uint64_t, const void*) {
    return true;
  }
  template <typename Object>
  static void reset(Object& object) {
    object.async_events_acked = 0;
  }
  // The depth that a queue has for each of its ports, and its limit.
  static constexpr uint32_t urma_device_cap_t::*kPortDepth = nullptr;
  template <typename Config>
  static uint32_t* port_depth(Config&) {
    return nullptr;
  }
  // The number of ports that an object gets of those requested.
  template <typename Config>
  static uint32_t settle_ports(const urma_context_t*, const Config&, uint32_t ports) {
    return ports;
  }
  template <typename Object>
  static urma_jetty_t* as_jetty(Object*) {
    return nullptr;
  }
};

template <typename Object>
void init_events(Object& object) {
  pthread_mutex_init(&object.event_mutex, nullptr);
  pthread_cond_init(&object.event_cond, nullptr);
}

// Makes what the provider returned a child of the context.
template <typename Kind>
void adopt(urma_context_t* ctx, const typename Kind::Config& config, typename Kind::Object& object,
           bool active) {
  object.urma_ctx = ctx;
  if (Kind::depth(Kind::config(object)) == 0) Kind::config(object) = config;
  init_events(object);
  Kind::reset(object);
  Kind::options(object).is_actived = active;
  object_made(ctx, Kind::kLiving);
}

// False, with a log line, if the object is not in the state that the call needs.
template <typename Kind>
bool check_activation(const char* call, typename Kind::Object& object, bool wanted) {
  if (Kind::options(object).is_actived == wanted) return true;
  URMA_LOG_LIMITED(ERR, "{}: the object is {}; call urma_{} first", call,
                   wanted ? "not active" : "active", wanted ? "active_*" : "deactive_*");
  return false;
}

// False, with a log line, if a queue that another one needs is NULL or not active.
inline bool check_part(const char* call, const char* name, const void* part, bool active) {
  if (!given(call, name, part)) return false;
  if (active) return true;
  URMA_LOG_LIMITED(ERR, "{}: {} is not active; activate it first", call, name);
  return false;
}

// -------------------------------------------------------------------------------------------------
// Making and ending
// -------------------------------------------------------------------------------------------------

template <typename Kind>
typename Kind::Object* create(const char* call, urma_context_t* ctx,
                              typename Kind::Config* config) {
  return pointer_entry(call, [&](const char*) -> typename Kind::Object* {
    auto* op = slot<Kind::kCreate>(call, ctx);
    if (op == nullptr || !given(call, "the configuration", config) ||
        !Kind::check(call, ctx, *config)) {
      return refused();
    }
    typename Kind::Hub* hub = Kind::hub(*config);
    const urma_status_t room = acquire(call, hub);
    if (room != URMA_SUCCESS) return refused(room);
    Rollback undo([hub] { release(hub); });
    const auto asked = ports_asked<Kind>(call, ctx, *config);
    if (!asked) return refused();
    Kind::settle(*config);
    const uint32_t ports = Kind::settle_ports(ctx, *config, *asked);
    PortsPlace<Kind> place(ctx, ports);
    typename Kind::Object* object = make<Kind>(op, ctx, config, *asked);
    if (object == nullptr) return nullptr;
    undo.dismiss();
    adopt<Kind>(ctx, *config, *object, true);
    place.take(object);
    attach(hub, object);
    return object;
  });
}

template <typename Kind>
urma_status_t alloc(const char* call, urma_context_t* ctx, typename Kind::Config* config,
                    typename Kind::Object** result) {
  return entry(call, [&](const char*) -> urma_status_t {
    auto* op = slot<Kind::kAlloc>(call, ctx);
    if (op == nullptr || !given(call, "the configuration", config) ||
        !given(call, "the place of the result", result) || !Kind::check_pointers(call, *config)) {
      return URMA_EINVAL;
    }
    typename Kind::Hub* hub = Kind::hub(*config);
    const urma_status_t room = acquire(call, hub);
    if (room != URMA_SUCCESS) return room;
    Rollback undo([hub] { release(hub); });
    const auto ports = ports_asked<Kind>(call, ctx, *config);
    if (!ports) return URMA_EINVAL;
    Kind::settle(*config);
    PortsPlace<Kind> place(ctx, *ports);
    typename Kind::Object* object = nullptr;
    const urma_status_t status = op(ctx, config, &object);
    if (status != URMA_SUCCESS) return status;
    if (object == nullptr) return URMA_ENOMEM;
    undo.dismiss();
    adopt<Kind>(ctx, *config, *object, false);
    place.take(object);
    attach(hub, object);
    *result = object;
    return URMA_SUCCESS;
  });
}

// What core remembers of an object while its provider frees it.
template <typename Kind>
class Departure {
 public:
  explicit Departure(typename Kind::Object* object)
      : object_(object), ctx_(object->urma_ctx), hub_(Kind::hub(Kind::config(*object))) {
    if (ObjectPorts* table = object_ports(ctx_)) ports_ = table->remove(object_);
    detach(hub_, object_);
  }
  Departure(const Departure&) = delete;
  Departure& operator=(const Departure&) = delete;
  Departure(Departure&& other) noexcept
      : object_(other.object_),
        ctx_(other.ctx_),
        hub_(other.hub_),
        ports_(std::move(other.ports_)) {
    other.object_ = nullptr;
  }
  ~Departure() {
    if (object_ == nullptr) return;
    attach(hub_, object_);
    if (!ports_.empty()) object_ports(ctx_)->add(std::move(ports_));
  }
  // The object is freed.
  void complete() {
    object_ = nullptr;
    release(hub_);
    object_ended(ctx_, Kind::kLiving);
  }

 private:
  typename Kind::Object* object_;
  urma_context_t* ctx_;
  typename Kind::Hub* hub_;
  ObjectPorts::Objects::node_type ports_;
};

// delete (of an active object) and free (of an inactive one).
template <typename Kind, auto Op>
urma_status_t end(const char* call, typename Kind::Object* object, bool active) {
  return entry(call, [&](const char*) -> urma_status_t {
    auto* op = slot<Op>(call, object);
    if (op == nullptr || !check_activation<Kind>(call, *object, active)) return URMA_EINVAL;
    const urma_status_t removable = Kind::check_removable(call, *object);
    if (removable != URMA_SUCCESS) return removable;
    Departure<Kind> departure(object);
    const urma_status_t status = op(object);
    if (status == URMA_SUCCESS) departure.complete();
    return status;
  });
}

// Whether all of a batch can be deleted.
template <typename Kind>
urma_status_t check_batch(const char* call, std::span<typename Kind::Object*> batch) {
  for (typename Kind::Object* object : batch) {
    if (slot<Kind::kDeleteBatch>(call, object) == nullptr ||
        !check_activation<Kind>(call, *object, true)) {
      return URMA_EINVAL;
    }
    if (object->urma_ctx != batch[0]->urma_ctx) {
      URMA_LOG_LIMITED(ERR,
                       "{}: the objects are of different contexts; delete those of one "
                       "context at a time",
                       call);
      return URMA_EINVAL;
    }
    const urma_status_t removable = Kind::check_removable(call, *object);
    if (removable != URMA_SUCCESS) return removable;
  }
  return URMA_SUCCESS;
}

template <typename Kind>
urma_status_t delete_batch(const char* call, typename Kind::Object** objects, int count,
                           typename Kind::Object** bad) {
  return entry(call, [&](const char*) -> urma_status_t {
    if (!given(call, "the array", objects) || !given(call, "the place of the bad object", bad)) {
      return URMA_EINVAL;
    }
    if (count <= 0) {
      URMA_LOG_LIMITED(ERR, "{}: count {} is not possible; pass 1 or more", call, count);
      return URMA_EINVAL;
    }
    const std::span batch(objects, static_cast<size_t>(count));
    urma_status_t status = check_batch<Kind>(call, batch);
    if (status != URMA_SUCCESS) {
      *bad = batch[0];
      return status;
    }
    auto* op = find_slot<Kind::kDeleteBatch>(batch[0]);
    std::vector<Departure<Kind>> departures;
    departures.reserve(batch.size());
    for (typename Kind::Object* object : batch) departures.emplace_back(object);
    // If the provider names none, none counts as deleted.
    typename Kind::Object* survivor = batch[0];
    status = op(objects, count, &survivor);
    const auto first_left =
        status == URMA_SUCCESS ? batch.end() : std::find(batch.begin(), batch.end(), survivor);
    const bool named = status == URMA_SUCCESS || first_left != batch.end();
    const ptrdiff_t gone = named ? first_left - batch.begin() : 0;
    for (ptrdiff_t i = 0; i < gone; ++i) departures[static_cast<size_t>(i)].complete();
    if (status != URMA_SUCCESS) *bad = survivor;
    return status;
  });
}

// -------------------------------------------------------------------------------------------------
// Options and activation
// -------------------------------------------------------------------------------------------------

template <typename Kind>
const opt_map_t* find_option(uint64_t option) {
  for (const opt_map_t& row : Kind::option_table()) {
    if (row.opt == option) return &row;
  }
  return nullptr;
}

// Writes the value of a known option to the member that its row of the table names.
template <typename Kind>
void store_option(typename Kind::Object& object, const opt_map_t& row, const void* value) {
  char* base = nullptr;
  switch (row.tgt) {
    case TARGET_CFG:
      base = reinterpret_cast<char*>(&Kind::config(object));
      break;
    case TARGET_OPT:
      base = reinterpret_cast<char*>(&Kind::options(object));
      Kind::option_mask(object) |= row.mask;
      break;
    case TARGET_JFS_CFG:
      base = reinterpret_cast<char*>(Kind::send_config(object));
      break;
  }
  std::memcpy(base + row.offset, value, row.size);
}

// The option that sets the hub moves the object from its present hub to the new one.
template <typename Kind>
urma_status_t move_to_hub(const char* call, typename Kind::Object* object, const opt_map_t& row,
                          void* value, OpPointer<Kind::kSetOpt> op) {
  typename Kind::Hub* old_hub = Kind::hub(Kind::config(*object));
  typename Kind::Hub* new_hub;
  std::memcpy(&new_hub, value, sizeof new_hub);
  if (new_hub == old_hub) return op(object, row.opt, value, static_cast<uint32_t>(row.size));
  const urma_status_t room = acquire(call, new_hub);
  if (room != URMA_SUCCESS) return room;
  Rollback undo([new_hub] { release(new_hub); });
  const urma_status_t status = op(object, row.opt, value, static_cast<uint32_t>(row.size));
  if (status != URMA_SUCCESS) return status;
  undo.dismiss();
  detach(old_hub, object);
  release(old_hub);
  store_option<Kind>(*object, row, value);
  attach(new_hub, object);
  return URMA_SUCCESS;
}

template <typename Kind>
urma_status_t set_option(const char* call, typename Kind::Object* object, uint64_t option,
                         void* value, uint32_t length) {
  return entry(call, [&](const char*) -> urma_status_t {
    auto* op = slot<Kind::kSetOpt>(call, object);
    if (op == nullptr || !given(call, "buf", value) ||
        !check_activation<Kind>(call, *object, false)) {
      return URMA_EINVAL;
    }
    const opt_map_t* row = find_option<Kind>(option);
    if (length == 0 || (row != nullptr && row->size != length)) {
      URMA_LOG_LIMITED(ERR, "{}: len {} does not match option {:#x}; pass {}", call, length, option,
                       row == nullptr ? 1 : row->size);
      return URMA_EINVAL;
    }
    if (row == nullptr && !Kind::kForeignOptions) {
      URMA_LOG_LIMITED(ERR, "{}: option {:#x} is unknown or read only; see urma_opcode.h", call,
                       option);
      return URMA_EINVAL;
    }
    if (!Kind::check_option(call, *object, option, value)) return URMA_EINVAL;
    if (row != nullptr && option == Kind::kHubOption) {
      return move_to_hub<Kind>(call, object, *row, value, op);
    }
    const urma_status_t status = op(object, option, value, length);
    if (status != URMA_SUCCESS) return status;
    if (row == nullptr) return URMA_EINVAL;
    store_option<Kind>(*object, *row, value);
    return URMA_SUCCESS;
  });
}

template <typename Kind>
urma_status_t get_option(const char* call, typename Kind::Object* object, uint64_t option,
                         void* value, uint32_t length) {
  return entry(call, [&](const char*) -> urma_status_t {
    if (!given(call, "buf", value)) return URMA_EINVAL;
    if (option == 0 || length == 0) {
      URMA_LOG_LIMITED(ERR, "{}: opt {:#x}, len {}: neither may be 0", call, option, length);
      return URMA_EINVAL;
    }
    return status_call<Kind::kGetOpt>(call, object, object, option, value, length);
  });
}

template <typename Kind>
urma_status_t activate(const char* call, typename Kind::Object* object) {
  return entry(call, [&](const char*) -> urma_status_t {
    auto* op = slot<Kind::kActive>(call, object);
    if (op == nullptr || !check_activation<Kind>(call, *object, false) ||
        !Kind::check(call, object->urma_ctx, Kind::config(*object)) ||
        !Kind::check_parts(call, *object)) {
      return URMA_EINVAL;
    }
    auto& config = Kind::config(*object);
    Kind::settle(config);
    const ObjectPorts* table = object_ports(object->urma_ctx);
    const uint32_t ports =
        Kind::settle_ports(object->urma_ctx, config, table == nullptr ? 1 : table->of(object));
    const DepthOfPorts<Kind> depth(object->urma_ctx, config, ports);
    const urma_status_t status = op(object);
    if (status == URMA_SUCCESS) Kind::options(*object).is_actived = true;
    return status;
  });
}

template <typename Kind>
urma_status_t deactivate(const char* call, typename Kind::Object* object) {
  return entry(call, [&](const char*) -> urma_status_t {
    auto* op = slot<Kind::kDeactive>(call, object);
    if (op == nullptr || !check_activation<Kind>(call, *object, true)) return URMA_EINVAL;
    const urma_status_t status = op(object);
    if (status == URMA_SUCCESS) Kind::options(*object).is_actived = false;
    return status;
  });
}

// -------------------------------------------------------------------------------------------------
// Calls that several kinds have
// -------------------------------------------------------------------------------------------------

template <auto Op, typename Object, typename Attr>
urma_status_t modify(const char* call, Object* object, Attr* attr) {
  if (!given(call, "attr", attr)) return URMA_EINVAL;
  return status_call<Op>(call, object, object, attr);
}

template <auto Op, typename Object, typename Config, typename Attr>
urma_status_t query(const char* call, Object* object, Config* config, Attr* attr) {
  if (!given(call, "cfg", config) || !given(call, "attr", attr)) return URMA_EINVAL;
  return status_call<Op>(call, object, object, config, attr);
}

template <auto Op, typename Object>
int flush(const char* call, Object* object, uint32_t depth, int count, urma_cr_t* records) {
  return count_entry(call, [&](const char*) {
    if (!given(call, "the queue", object) || !given(call, "cr", records)) return -URMA_EINVAL;
    if (count <= 0 || static_cast<uint32_t>(count) > depth) {
      URMA_LOG_LIMITED(ERR, "{}: cr_cnt {} is out of range; pass 1 up to the depth, {}", call,
                       count, depth);
      return -URMA_EINVAL;
    }
    return count_call<Op>(call, object, object, count, records);
  });
}

}  // namespace urma::core

#endif  // URMA_CORE_API_LIFECYCLE_H_
