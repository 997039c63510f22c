/* SPDX-License-Identifier: MIT */

// The calls of the URMA interface.
//
// What holds for every call, unless its own comment says otherwise:
// - A call that returns a pointer returns NULL on failure, with errno set. EINVAL also means that
//   the provider of the device does not support the operation.
// - A call that returns urma_status_t returns URMA_SUCCESS or the reason of the failure and leaves
//   errno alone, except that posting may change it. URMA_EINVAL also means that the provider does
//   not support the operation. URMA_FAIL and other values may come from the provider.
// - A NULL handle is refused; a stale handle is not detected.
// - "Thread-safe" means: any number of threads may make this and other calls at the same time, also
//   on the same object, as long as no thread ends an object that another thread is using.
// - Configurations and descriptors belong to the caller and are read during the call only. A call
//   replaces URMA_DEF_ORDER in an order_type by the default of the transport mode.
// - A process that holds URMA objects must not use them in a child that it forked. There each call
//   fails until exec.
// - Signal handlers must make no call, and no thread may be cancelled (pthread_cancel) during one.

#ifndef URMA_API_H
#define URMA_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "urma_opcode.h"
#include "urma_types.h"

#ifdef __cplusplus
extern "C" {
#endif

// -------------------------------------------------------------------------------------------------
// Library and devices
// -------------------------------------------------------------------------------------------------

// Starts the library: loads the providers and finds the devices. `conf` may be NULL; its uasid
// requests a process number (24 bits, 0: chosen at random). Must come before every other call,
// except the log calls and the conversions of EIDs. Not thread-safe.
// Returns URMA_SUCCESS, also with no device; URMA_EEXIST: already started, nothing changed, or the
// requested uasid is taken; URMA_EINVAL: it has more than 24 bits; URMA_ENOMEM: no memory or
// descriptors; URMA_FAIL: no provider could be loaded, or the runtime directory, which a requested
// uasid needs, cannot be used. A library that did not start may be started again.
// Specification: Context Management.
urma_status_t urma_init(urma_init_attr_t* conf);

// Ends the library: all devices become invalid, the providers are unloaded. Delete every context
// first; one log line names the objects that still exist. Calls on those return URMA_EINVAL, -1 or
// NULL from then on, also after the next urma_init; do not pass them to calls on new objects.
// urma_init may follow. Not thread-safe.
// Returns URMA_SUCCESS, also if the library was not started, or objects still exist; URMA_FAIL: a
// provider failed to end, the rest was cleaned up.
// Specification: Context Management.
urma_status_t urma_uninit(void);

// Looks for devices again and lists them. `num_devices` receives their number. The caller frees the
// array with urma_free_device_list; it is not NULL-terminated. The devices belong to the library.
// Thread-safe.
// Returns the array, or NULL with errno EINVAL: num_devices is NULL; ENODEV: there is no device,
// and *num_devices is 0.
// Specification: Context Management.
urma_device_t** urma_get_device_list(int* num_devices);

// Frees an array of urma_get_device_list; NULL is allowed. The devices in it stay valid.
// Thread-safe.
// Specification: Context Management.
void urma_free_device_list(urma_device_t** device_list);

// Lists the EIDs of a device. `cnt` receives the number of valid entries, each with the eid_index
// that urma_create_context takes. The caller frees the array with urma_free_eid_list. Thread-safe.
// Returns the array, or NULL with errno EINVAL: an argument is NULL or the device has no EID table;
// EIO: no entry is valid, and *cnt is 0.
// Specification: Context Management.
urma_eid_info_t* urma_get_eid_list(urma_device_t* dev, uint32_t* cnt);

// Frees an array of urma_get_eid_list; NULL is allowed. Thread-safe.
// Specification: Context Management.
void urma_free_eid_list(urma_eid_info_t* eid_list);

// Finds a device by its name, such as one that urma_get_device_list shows. Thread-safe.
// Returns the device, which belongs to the library, or NULL with errno EINVAL: the name is NULL or
// has URMA_MAX_DEV_NAME or more characters; ENODEV: not found.
// Specification: Context Management.
urma_device_t* urma_get_device_by_name(char* dev_name);

// Finds the first device of transport type `type` in the list that has `eid` in its table. An
// aggregated device over urma_shm0 has its own EID; every other alias shares the EID of its device,
// and the device is found. Thread-safe.
// Returns the device, which belongs to the library, or NULL with errno ENODEV: not found.
// Specification: Context Management.
urma_device_t* urma_get_device_by_eid(urma_eid_t eid, urma_transport_type_t type);

// Reads the current attributes and port states of a device into `dev_attr`. Thread-safe.
// Returns URMA_SUCCESS; URMA_EINVAL, with errno EINVAL too: an argument is NULL; URMA_FAIL: the
// device cannot be reached, or is not one of the library.
// Specification: Device Attributes.
urma_status_t urma_query_device(urma_device_t* dev, urma_device_attr_t* dev_attr);

// -------------------------------------------------------------------------------------------------
// Context
// -------------------------------------------------------------------------------------------------

// Opens a device with the address in entry `eid_index` of its EID table. A device may be opened
// many times. The caller ends the context with urma_delete_context. Thread-safe.
// Returns the context, or NULL with errno EINVAL: dev is NULL or not a device of the library, or it
// has no such entry; EIO: the kernel has no such entry, or its device cannot be opened; or what the
// provider set.
// Specification: Context Management.
urma_context_t* urma_create_context(urma_device_t* dev, uint32_t eid_index);

// Closes a context. Everything made from it must be ended first: queues, event channels, groups,
// notifiers, imports, token ids and segments. Thread-safe.
// Returns URMA_SUCCESS; URMA_EINVAL: ctx is NULL; URMA_EAGAIN: an object still exists, nothing
// changed; or the status of the provider, and the context stays valid.
// Specification: Context Management.
urma_status_t urma_delete_context(urma_context_t* ctx);

// Sets an option of an aggregated device. The only one is URMA_OPT_AGGR_MODE, with a
// urma_context_aggr_mode_t in `opt_value` and its size in `opt_len`; set it before the context has
// objects. Thread-safe.
// Returns URMA_SUCCESS; URMA_EINVAL: ctx or opt_value is NULL, the option or length is unknown, or
// the device is not aggregated; URMA_ENOPERM: forbidden; URMA_FAIL: too late, or the provider
// failed.
// Specification: Context Management.
urma_status_t urma_set_context_opt(urma_context_t* ctx, urma_opt_name_t opt_name,
                                   const void* opt_value, size_t opt_len);

// -------------------------------------------------------------------------------------------------
// Completion queues (JFC)
// -------------------------------------------------------------------------------------------------

// Makes a completion queue of `depth` records, ready for use. It counts as a reference to the
// context and to cfg.jfce. The caller ends it with urma_delete_jfc. Thread-safe.
// Returns the queue, or NULL with errno EINVAL: an argument is NULL, or depth is 0 or above
// max_jfc_depth; or what the provider set.
// Specification: Jetty Management.
urma_jfc_t* urma_create_jfc(urma_context_t* ctx, urma_jfc_cfg_t* jfc_cfg);

// Changes when completions raise an event: attr->mask says which of moderate_count (completions)
// and moderate_period (us) apply. Thread-safe.
// Returns URMA_SUCCESS; URMA_EINVAL: an argument is NULL, the mask is empty or a value is not
// possible; or the status of the provider.
// Specification: Jetty Management.
urma_status_t urma_modify_jfc(urma_jfc_t* jfc, urma_jfc_attr_t* attr);

// Ends a completion queue made by urma_create_jfc or urma_active_jfc. Delete the queues that use it
// first. Waits until every event obtained for it is acknowledged, unless flag.bs.non_blocking is
// set.
// Returns URMA_SUCCESS; URMA_EINVAL: NULL or not active; URMA_EAGAIN: still used, or events not
// acknowledged; or the status of the provider. After a failure the queue stays valid.
// Specification: Jetty Management.
urma_status_t urma_delete_jfc(urma_jfc_t* jfc);

// First step of the two-step life cycle: makes an inactive completion queue in `*jfc`. Then come
// urma_set_jfc_opt, urma_active_jfc and, in the end, urma_deactive_jfc and urma_free_jfc.
// Thread-safe.
// Returns URMA_SUCCESS; URMA_EINVAL: an argument is NULL; URMA_ENOMEM: no memory for the queue; or
// the status of the provider.
// Specification: Jetty Management.
urma_status_t urma_alloc_jfc(urma_context_t* urma_ctx, urma_jfc_cfg_t* cfg, urma_jfc_t** jfc);

// Sets option `opt`, one of URMA_JFC_*, of an inactive queue from the `len` bytes at `buf`. Calls
// for the same queue must not overlap.
// Returns URMA_SUCCESS; URMA_EINVAL: a NULL argument, a length other than that of the option, or an
// active queue; URMA_FAIL or URMA_EINVAL, by the provider: an unknown option; or the status of the
// provider.
// Specification: Jetty Management.
urma_status_t urma_set_jfc_opt(urma_jfc_t* jfc, uint64_t opt, void* buf, uint32_t len);

// Makes an allocated queue ready for use, after checking what urma_create_jfc checks. Calls for the
// same queue must not overlap.
// Returns URMA_SUCCESS; URMA_EINVAL: NULL, active already, or a setting out of range; or the status
// of the provider.
// Specification: Jetty Management.
urma_status_t urma_active_jfc(urma_jfc_t* jfc);

// Reads option `opt`, one of URMA_JFC_*, into the `len` bytes at `buf`. Thread-safe.
// Returns URMA_SUCCESS; URMA_EINVAL: a NULL argument, opt or len is 0, or the length is wrong; or
// the status of the provider.
// Specification: Jetty Management.
urma_status_t urma_get_jfc_opt(urma_jfc_t* jfc, uint64_t opt, void* buf, uint32_t len);

// Takes a queue out of use; it can be set up and activated again, or freed. Calls for the same
// queue must not overlap.
// Returns URMA_SUCCESS; URMA_EINVAL: NULL or not active; or the status of the provider.
// Specification: Jetty Management.
urma_status_t urma_deactive_jfc(urma_jfc_t* jfc);

// Frees an inactive queue. Calls for the same queue must not overlap.
// Returns URMA_SUCCESS; URMA_EINVAL: NULL or still active; or the status of the provider.
// Specification: Jetty Management.
urma_status_t urma_free_jfc(urma_jfc_t* jfc);

// Ends the `jfc_num` completion queues of `jfc_arr`, all of one context, as urma_delete_jfc does
// one. `bad_jfc` is written on failure only.
// Returns URMA_SUCCESS; URMA_EINVAL: an argument is NULL, jfc_num is not positive, or an element is
// invalid (then *bad_jfc is the first element and nothing was deleted); or the status of the
// provider (then *bad_jfc is the first one that was not deleted; those before it were).
// Specification: Jetty Management.
urma_status_t urma_delete_jfc_batch(urma_jfc_t** jfc_arr, int jfc_num, urma_jfc_t** bad_jfc);

// -------------------------------------------------------------------------------------------------
// Send queues (JFS)
// -------------------------------------------------------------------------------------------------

// Makes a send queue, ready for use; cfg->jfc takes its completions and must outlive it. The limits
// in jfs->jfs_cfg are those in effect. The caller ends it with urma_delete_jfs. Thread-safe.
// Returns the queue, or NULL with errno EINVAL: an argument or cfg->jfc is NULL, trans_mode is not
// one mode, order_type does not go with it, depth is 0, or a value exceeds the device; or what the
// provider set.
// Specification: Jetty Management.
urma_jfs_t* urma_create_jfs(urma_context_t* ctx, urma_jfs_cfg_t* jfs_cfg);

// Changes the state of a send queue: attr->mask has JFS_STATE. ERROR flushes the queue, RESET
// empties it, READY puts it back into use; each may follow every state. SUSPENDED stops the queue,
// and may follow READY only. Thread-safe.
// Returns URMA_SUCCESS, also for the state that it is in; URMA_EINVAL: an argument is NULL, the
// mask lacks JFS_STATE, the queue is not active, or the state cannot follow; or the status of the
// provider.
// Specification: Jetty Management.
urma_status_t urma_modify_jfs(urma_jfs_t* jfs, urma_jfs_attr_t* attr);

// Reads the configuration and state of a send queue; attr->mask becomes 0. Thread-safe.
// Returns URMA_SUCCESS; URMA_EINVAL: an argument is NULL; or the status of the provider.
// Specification: Jetty Management.
urma_status_t urma_query_jfs(urma_jfs_t* jfs, urma_jfs_cfg_t* cfg, urma_jfs_attr_t* attr);

// Ends a send queue. Completions that were not polled are dropped. Waits until every event obtained
// for it is acknowledged, unless flag.bs.non_blocking is set.
// Returns URMA_SUCCESS; URMA_EINVAL: NULL or not active; URMA_EAGAIN: events not acknowledged; or
// the status of the provider. After a failure the queue stays valid.
// Specification: Jetty Management.
urma_status_t urma_delete_jfs(urma_jfs_t* jfs);

// Ends the `jfs_num` send queues of `jfs_arr`, all of one context, as urma_delete_jfs does one.
// `bad_jfs` is written on failure only.
// Returns URMA_SUCCESS; URMA_EINVAL: an argument is NULL, jfs_num is not positive, or an element is
// invalid (then *bad_jfs is the first element and nothing was deleted); or the status of the
// provider (then *bad_jfs is the first one that was not deleted; those before it were).
// Specification: Jetty Management.
urma_status_t urma_delete_jfs_batch(urma_jfs_t** jfs_arr, int jfs_num, urma_jfs_t** bad_jfs);

// Takes back, oldest first, up to `cr_cnt` requests that were posted but never carried out, as
// records with status URMA_CR_WR_UNHANDLED and their user_ctx. Use it after the queue was put into
// ERROR and the URMA_CR_WR_FLUSH_ERR_DONE record was polled; call it until it returns 0.
// Thread-safe.
// Returns the number of records in `cr`, 0: none left or the marker is not polled yet;
// -URMA_EINVAL: an argument is NULL, or cr_cnt is not positive or above the depth.
// Specification: Jetty Management.
int urma_flush_jfs(urma_jfs_t* jfs, int cr_cnt, urma_cr_t* cr);

// First step of the two-step life cycle: makes an inactive send queue in `*jfs`. Then come
// urma_set_jfs_opt, urma_active_jfs and, in the end, urma_deactive_jfs and urma_free_jfs.
// Thread-safe.
// Returns URMA_SUCCESS; URMA_EINVAL: an argument or cfg->jfc is NULL, or trans_mode or order_type
// is wrong; or the status of the provider.
// Specification: Jetty Management.
urma_status_t urma_alloc_jfs(urma_context_t* urma_ctx, urma_jfs_cfg_t* cfg, urma_jfs_t** jfs);

// Sets option `opt`, one of URMA_JFS_*, of an inactive queue from the `len` bytes at `buf`. Calls
// for the same queue must not overlap.
// Returns URMA_SUCCESS; URMA_EINVAL: a NULL argument, an unknown option, a length other than that
// of the option, or an active queue; or the status of the provider.
// Specification: Jetty Management.
urma_status_t urma_set_jfs_opt(urma_jfs_t* jfs, uint64_t opt, void* buf, uint32_t len);

// Makes an allocated queue ready for use, after checking what urma_create_jfs checks. Its JFC must
// be active. Calls for the same queue must not overlap.
// Returns URMA_SUCCESS; URMA_EINVAL: NULL, active already, inactive JFC, or a setting out of range;
// or the status of the provider.
// Specification: Jetty Management.
urma_status_t urma_active_jfs(urma_jfs_t* jfs);

// Reads option `opt`, one of URMA_JFS_*, into the `len` bytes at `buf`. Thread-safe.
// Returns URMA_SUCCESS; URMA_EINVAL: a NULL argument, opt or len is 0, or the length is wrong; or
// the status of the provider.
// Specification: Jetty Management.
urma_status_t urma_get_jfs_opt(urma_jfs_t* jfs, uint64_t opt, void* buf, uint32_t len);

// Takes a queue out of use; it can be set up and activated again, or freed. Calls for the same
// queue must not overlap.
// Returns URMA_SUCCESS; URMA_EINVAL: NULL or not active; or the status of the provider.
// Specification: Jetty Management.
urma_status_t urma_deactive_jfs(urma_jfs_t* jfs);

// Frees an inactive queue. Calls for the same queue must not overlap.
// Returns URMA_SUCCESS; URMA_EINVAL: NULL or still active; or the status of the provider.
// Specification: Jetty Management.
urma_status_t urma_free_jfs(urma_jfs_t* jfs);

// -------------------------------------------------------------------------------------------------
// Receive queues (JFR)
// -------------------------------------------------------------------------------------------------

// Makes a receive queue, ready for use; cfg->jfc takes its completions and must outlive it. cfg->id
// asks for a well-known id, 0 lets the system choose. The caller ends it with urma_delete_jfr.
// Thread-safe.
// Returns the queue, or NULL with errno EINVAL: an argument or cfg->jfc is NULL, trans_mode is not
// one mode, depth is 0, or depth or max_sge exceeds the device; or what the provider set, for
// instance when the id is taken.
// Specification: Jetty Management.
urma_jfr_t* urma_create_jfr(urma_context_t* ctx, urma_jfr_cfg_t* jfr_cfg);

// Changes a receive queue: attr->mask says which of rx_threshold (arms URMA_EVENT_JFR_LIMIT) and
// state apply. ERROR flushes the queue, RESET empties it, READY puts it back into use. Thread-safe.
// Returns URMA_SUCCESS; URMA_EINVAL: an argument is NULL, the mask is empty, the queue is not
// active, the state is unknown, or rx_threshold exceeds the depth; or the status of the provider.
// Specification: Jetty Management.
urma_status_t urma_modify_jfr(urma_jfr_t* jfr, urma_jfr_attr_t* attr);

// Reads the configuration and state of a receive queue; attr->mask becomes 0. Thread-safe.
// Returns URMA_SUCCESS; URMA_EINVAL: an argument is NULL; or the status of the provider.
// Specification: Jetty Management.
urma_status_t urma_query_jfr(urma_jfr_t* jfr, urma_jfr_cfg_t* cfg, urma_jfr_attr_t* attr);

// Ends a receive queue. Delete the jetties that receive through it first. Waits until every event
// obtained for it is acknowledged, unless flag.bs.non_blocking is set.
// Returns URMA_SUCCESS; URMA_EINVAL: NULL or not active; URMA_EAGAIN: a jetty receives through it,
// or events are not acknowledged; or the status of the provider. After a failure the queue stays
// valid.
// Specification: Jetty Management.
urma_status_t urma_delete_jfr(urma_jfr_t* jfr);

// Ends the `jfr_num` receive queues of `jfr_arr`, all of one context, as urma_delete_jfr does one.
// `bad_jfr` is written on failure only.
// Returns URMA_SUCCESS; URMA_EINVAL: an argument is NULL, jfr_num is not positive, or an element is
// invalid (then *bad_jfr is the first element and nothing was deleted); or the status of the
// provider (then *bad_jfr is the first one that was not deleted; those before it were).
// Specification: Jetty Management.
urma_status_t urma_delete_jfr_batch(urma_jfr_t** jfr_arr, int jfr_num, urma_jfr_t** bad_jfr);

// Makes the remote JFR described by `rjfr` a target of send requests. `token_value` is what its
// owner set; it may be NULL under URMA_TOKEN_NONE. A wrong token shows at the first request. The
// caller ends the import with urma_unimport_jfr. Thread-safe.
// Returns the target, or NULL with errno EINVAL: ctx or rjfr is NULL, the token is missing, or
// share_tp is set and the provider does not support it; or what the provider set.
// Specification: Jetty Management.
urma_target_jetty_t* urma_import_jfr(urma_context_t* ctx, urma_rjfr_t* rjfr,
                                     urma_token_t* token_value);

// As urma_import_jfr, over the channel `cfg` that the caller picked with urma_get_tp_list.
// Thread-safe.
// Returns the target, or NULL with errno EINVAL: an argument is NULL, the token included; or what
// the provider set.
// Specification: Jetty Management.
urma_target_jetty_t* urma_import_jfr_ex(urma_context_t* ctx, urma_rjfr_t* rjfr,
                                        urma_token_t* token_value, urma_import_jfr_ex_cfg_t* cfg);

// Ends an import of urma_import_jfr or urma_import_jfr_ex. No request to it may be in flight.
// Returns URMA_SUCCESS; URMA_EINVAL: NULL; or the status of the provider.
// Specification: Jetty Management.
urma_status_t urma_unimport_jfr(urma_target_jetty_t* target_jfr);

// Connects an RM send queue to a target ahead of the first request. UB devices need no such call
// and do nothing. Thread-safe.
// Returns URMA_SUCCESS; URMA_EINVAL: an argument is NULL or the mode is not RM; URMA_EEXIST:
// connected already; or the status of the provider.
// Specification: Unilateral Operations.
urma_status_t urma_advise_jfr(urma_jfs_t* jfs, urma_target_jetty_t* tjfr);

// As urma_advise_jfr, without waiting: `cb_fun` gets the result and `cb_arg`, from another thread.
// On a UB device it returns URMA_SUCCESS and does not call it. Thread-safe.
// Returns URMA_SUCCESS; URMA_EINVAL: an argument is NULL, the mode is not RM, or the queue and the
// target are of different contexts; or the status of the provider.
// Specification: Unilateral Operations.
urma_status_t urma_advise_jfr_async(urma_jfs_t* jfs, urma_target_jetty_t* tjfr,
                                    urma_advise_async_cb_func cb_fun, void* cb_arg);

// Undoes urma_advise_jfr. UB devices do nothing. Thread-safe.
// Returns URMA_SUCCESS; URMA_EINVAL: an argument is NULL or the mode is not RM; or the status of
// the provider.
// Specification: Unilateral Operations.
urma_status_t urma_unadvise_jfr(urma_jfs_t* jfs, urma_target_jetty_t* tjfr);

// First step of the two-step life cycle: makes an inactive receive queue in `*jfr`. Then come
// urma_set_jfr_opt, urma_active_jfr and, in the end, urma_deactive_jfr and urma_free_jfr.
// Thread-safe.
// Returns URMA_SUCCESS; URMA_EINVAL: an argument or cfg->jfc is NULL, or the default of order_type
// is unknown; or the status of the provider.
// Specification: Jetty Management.
urma_status_t urma_alloc_jfr(urma_context_t* urma_ctx, urma_jfr_cfg_t* cfg, urma_jfr_t** jfr);

// Sets option `opt`, one of URMA_JFR_*, of an inactive queue from the `len` bytes at `buf`. Calls
// for the same queue must not overlap.
// Returns URMA_SUCCESS; URMA_EINVAL: a NULL argument, an unknown option, a length other than that
// of the option, or an active queue; or the status of the provider.
// Specification: Jetty Management.
urma_status_t urma_set_jfr_opt(urma_jfr_t* jfr, uint64_t opt, void* buf, uint32_t len);

// Makes an allocated queue ready for use, after checking what urma_create_jfr checks. Its JFC must
// be active. Calls for the same queue must not overlap.
// Returns URMA_SUCCESS; URMA_EINVAL: NULL, active already, inactive JFC, or a setting out of range;
// or the status of the provider.
// Specification: Jetty Management.
urma_status_t urma_active_jfr(urma_jfr_t* jfr);

// Reads option `opt`, one of URMA_JFR_*, into the `len` bytes at `buf`. Thread-safe.
// Returns URMA_SUCCESS; URMA_EINVAL: a NULL argument, opt or len is 0, or the length is wrong; or
// the status of the provider.
// Specification: Jetty Management.
urma_status_t urma_get_jfr_opt(urma_jfr_t* jfr, uint64_t opt, void* buf, uint32_t len);

// Takes a queue out of use; it can be set up and activated again, or freed. Calls for the same
// queue must not overlap.
// Returns URMA_SUCCESS; URMA_EINVAL: NULL or not active; or the status of the provider.
// Specification: Jetty Management.
urma_status_t urma_deactive_jfr(urma_jfr_t* jfr);

// Frees an inactive queue. Calls for the same queue must not overlap.
// Returns URMA_SUCCESS; URMA_EINVAL: NULL or still active; or the status of the provider.
// Specification: Jetty Management.
urma_status_t urma_free_jfr(urma_jfr_t* jfr);

// -------------------------------------------------------------------------------------------------
// Jetties
// -------------------------------------------------------------------------------------------------

// Makes a jetty, ready for use: a send queue from cfg->jfs_cfg that receives through
// cfg->shared.jfr. The JFR and JFCs must outlive it. cfg->id asks for a well-known id, 0 lets the
// system choose. The caller ends it with urma_delete_jetty. Thread-safe.
// Returns the jetty, or NULL with errno EINVAL: an argument, the JFC or the JFR is NULL, share_jfr
// is 0 on a UB device, mode or order is wrong or differs between JFS and JFR, the group has another
// mode or token, depth is 0, or a value exceeds the device; EPERM: the group is full; or what the
// provider set.
// Specification: Jetty Management.
urma_jetty_t* urma_create_jetty(urma_context_t* ctx, urma_jetty_cfg_t* jetty_cfg);

// Changes the state of a jetty, as urma_modify_jfs: attr->mask has JETTY_STATE. ERROR flushes the
// send queue: all requests come back as URMA_CR_WR_FLUSH_ERR, then one URMA_CR_WR_FLUSH_ERR_DONE.
// With JETTY_RX_THRESHOLD too, rx_threshold arms URMA_EVENT_JETTY_LIMIT. Thread-safe.
// Returns URMA_SUCCESS; URMA_EINVAL: an argument is NULL, the mask lacks JETTY_STATE, the jetty is
// not active, the state cannot follow, or rx_threshold exceeds the depth of the JFR or is not
// supported by the device; or the status of the provider.
// Specification: Jetty Management.
urma_status_t urma_modify_jetty(urma_jetty_t* jetty, urma_jetty_attr_t* attr);

// Reads the configuration and state of a jetty; attr->mask becomes 0. Thread-safe.
// Returns URMA_SUCCESS; URMA_EINVAL: an argument is NULL; or the status of the provider.
// Specification: Jetty Management.
urma_status_t urma_query_jetty(urma_jetty_t* jetty, urma_jetty_cfg_t* cfg, urma_jetty_attr_t* attr);

// Ends a jetty. Completions that were not polled are dropped, also those of receives that it has
// taken from a shared JFR: to miss none, set it to URMA_JETTY_STATE_ERROR and poll first. Waits
// until every event obtained for it is acknowledged, unless flag.bs.non_blocking is set.
// Returns URMA_SUCCESS; URMA_EINVAL: NULL or not active; URMA_ENOPERM: an RC jetty that is still
// bound; URMA_EAGAIN: events not acknowledged; or the status of the provider. After a failure it
// stays valid.
// Specification: Jetty Management.
urma_status_t urma_delete_jetty(urma_jetty_t* jetty);

// Ends the `jetty_num` jetties of `jetty_arr`, all of one context, as urma_delete_jetty does one.
// `bad_jetty` is written on failure only.
// Returns URMA_SUCCESS; URMA_EINVAL: an argument is NULL, jetty_num is not positive, or an element
// is invalid; URMA_ENOPERM: one of them is bound (in both cases *bad_jetty is the first element and
// nothing was deleted); or the status of the provider (then *bad_jetty is the first one that was
// not deleted).
// Specification: Jetty Management.
urma_status_t urma_delete_jetty_batch(urma_jetty_t** jetty_arr, int jetty_num,
                                      urma_jetty_t** bad_jetty);

// Makes the remote jetty, JFR or group described by `rjetty` a target of send requests.
// `token_value` is what its owner set; a wrong or missing one shows at the first request. The
// caller ends the import with urma_unimport_jetty. Thread-safe.
// Returns the target, or NULL with errno EINVAL: ctx or rjetty is NULL, or mode, order, channel
// type or share_tp is not possible; or what the provider set.
// Specification: Jetty Management.
urma_target_jetty_t* urma_import_jetty(urma_context_t* ctx, urma_rjetty_t* rjetty,
                                       urma_token_t* token_value);

// As urma_import_jetty, over the channel `cfg` that the caller picked with urma_get_tp_list.
// Thread-safe.
// Returns the target, or NULL with errno EINVAL: an argument is NULL, the token included; or what
// the provider set.
// Specification: Jetty Management.
urma_target_jetty_t* urma_import_jetty_ex(urma_context_t* ctx, urma_rjetty_t* rjetty,
                                          urma_token_t* token_value,
                                          urma_import_jetty_ex_cfg_t* cfg);

// Ends an import of urma_import_jetty or urma_import_jetty_ex. No request to it may be in flight.
// Returns URMA_SUCCESS; URMA_EINVAL: NULL; URMA_FAIL: an RC target that is still bound; or the
// status of the provider.
// Specification: Jetty Management.
urma_status_t urma_unimport_jetty(urma_target_jetty_t* tjetty);

// Connects an RM jetty to a target ahead of the first request. UB devices need no such call and do
// nothing. Thread-safe.
// Returns URMA_SUCCESS; URMA_EINVAL: an argument is NULL or the mode is not RM; URMA_EEXIST:
// connected already; or the status of the provider.
// Specification: Unilateral Operations.
urma_status_t urma_advise_jetty(urma_jetty_t* jetty, urma_target_jetty_t* tjetty);

// Undoes urma_advise_jetty. UB devices do nothing. Thread-safe.
// Returns URMA_SUCCESS; URMA_EINVAL: an argument is NULL or the mode is not RM; or the status of
// the provider.
// Specification: Unilateral Operations.
urma_status_t urma_unadvise_jetty(urma_jetty_t* jetty, urma_target_jetty_t* tjetty);

// Connects an RC jetty with an imported RC jetty, one to one; it then shows in jetty->remote_jetty.
// Both sides bind, in any order or at the same time. Thread-safe.
// Returns URMA_SUCCESS, also for the same pair again; URMA_EINVAL: an argument is NULL or the
// target is bound elsewhere; URMA_ENOPERM: a side is not RC or the orders differ; URMA_EEXIST: the
// jetty has another peer; or the status of the provider.
// Specification: Jetty Management.
urma_status_t urma_bind_jetty(urma_jetty_t* jetty, urma_target_jetty_t* tjetty);

// As urma_bind_jetty, over the channel `cfg` that the caller picked with urma_get_tp_list; it must
// not be NULL. Thread-safe.
// Returns what urma_bind_jetty returns.
// Specification: Jetty Management.
urma_status_t urma_bind_jetty_ex(urma_jetty_t* jetty, urma_target_jetty_t* tjetty,
                                 urma_bind_jetty_ex_cfg_t* cfg);

// Disconnects an RC jetty; jetty->remote_jetty becomes NULL and nothing can be sent before a new
// bind. Thread-safe.
// Returns URMA_SUCCESS; URMA_EINVAL: NULL or nothing bound; URMA_ENOPERM: not an RC jetty; or the
// status of the provider.
// Specification: Jetty Management.
urma_status_t urma_unbind_jetty(urma_jetty_t* jetty);

// As urma_flush_jfs, for the send queue of a jetty. Thread-safe.
// Returns the number of records in `cr`, 0: none left or the marker is not polled yet;
// -URMA_EINVAL: an argument is NULL, or cr_cnt is not positive or above the depth.
// Specification: Jetty Management.
int urma_flush_jetty(urma_jetty_t* jetty, int cr_cnt, urma_cr_t* cr);

// Makes the descriptor with which others import `jetty`: `*length` bytes that can be sent as they
// are. The caller frees it with urma_put_rjetty. Thread-safe.
// Returns URMA_SUCCESS; URMA_EINVAL: an argument is NULL or the jetty has no shared JFR;
// URMA_ENOMEM; URMA_FAIL: the provider of an aggregated device failed, and *rjetty stays NULL.
// Specification: Jetty Management.
urma_status_t urma_get_rjetty(urma_jetty_t* jetty, urma_rjetty_t** rjetty, uint32_t* length);

// Frees a descriptor of urma_get_rjetty; NULL is allowed. Thread-safe.
// Specification: Jetty Management.
void urma_put_rjetty(urma_rjetty_t* rjetty);

// Starts urma_import_jetty without waiting. The target may be used only after urma_wait_notify
// reported success with `user_ctx`. The import fails after `timeout` ms (-1: no timeout). The
// caller ends it with urma_unimport_jetty_async; a failed one ends by itself. Thread-safe.
// Returns the target, or NULL with errno EINVAL: an argument is NULL, the token included, or mode,
// order or channel type is not possible; or what the provider set.
// Specification: Jetty Management.
urma_target_jetty_t* urma_import_jetty_async(urma_notifier_t* notifier, const urma_rjetty_t* rjetty,
                                             const urma_token_t* token_value, uint64_t user_ctx,
                                             int timeout);

// Ends an import of urma_import_jetty_async. No request to it may be in flight.
// Returns URMA_SUCCESS; URMA_EINVAL: NULL; or the status of the provider.
// Specification: Jetty Management.
urma_status_t urma_unimport_jetty_async(urma_target_jetty_t* tjetty);

// Starts urma_bind_jetty without waiting; urma_wait_notify reports the result with `user_ctx`, a
// failure at the latest after `timeout` ms (-1: no timeout). Thread-safe.
// Returns URMA_SUCCESS: started; URMA_EINVAL, URMA_ENOPERM or URMA_EEXIST as urma_bind_jetty; or
// the status of the provider.
// Specification: Jetty Management.
urma_status_t urma_bind_jetty_async(urma_notifier_t* notifier, urma_jetty_t* jetty,
                                    urma_target_jetty_t* tjetty, uint64_t user_ctx, int timeout);

// Undoes urma_bind_jetty_async. Thread-safe.
// Returns URMA_SUCCESS; URMA_EINVAL: NULL or nothing bound; URMA_ENOPERM: not an RC jetty; or the
// status of the provider.
// Specification: Jetty Management.
urma_status_t urma_unbind_jetty_async(urma_jetty_t* jetty);

// Makes a channel for the results of the *_async calls; its fd can be polled. The caller ends it
// with urma_delete_notifier. Thread-safe.
// Returns the notifier, or NULL with errno EINVAL: ctx is NULL; or what the provider set.
// Specification: Jetty Management.
urma_notifier_t* urma_create_notifier(urma_context_t* ctx);

// Ends a notifier. Imports still in progress fail with a timeout and end too.
// Returns URMA_SUCCESS; URMA_EINVAL: NULL; or the status of the provider.
// Specification: Jetty Management.
urma_status_t urma_delete_notifier(urma_notifier_t* notifier);

// First step of the two-step life cycle: makes an inactive jetty in `*jetty`. Then come
// urma_set_jetty_opt, urma_active_jetty and, in the end, urma_deactive_jetty and urma_free_jetty.
// Thread-safe.
// Returns URMA_SUCCESS; URMA_EINVAL: an argument is NULL or the default of order_type is unknown;
// URMA_ENOPERM: the group is full; or the status of the provider.
// Specification: Jetty Management.
urma_status_t urma_alloc_jetty(urma_context_t* urma_ctx, urma_jetty_cfg_t* cfg,
                               urma_jetty_t** jetty);

// Sets option `opt`, one of URMA_JETTY_* or URMA_JFS_*, of an inactive jetty from the `len` bytes
// at `buf`. URMA_JETTY_BIND_JTG moves it to another group. Calls for the same jetty must not
// overlap.
// Returns URMA_SUCCESS; URMA_EINVAL: a NULL argument, an unknown option, a length other than that
// of the option, an active jetty, or a UB jetty without share_jfr; URMA_ENOPERM: the other group is
// full; or the status of the provider.
// Specification: Jetty Management.
urma_status_t urma_set_jetty_opt(urma_jetty_t* jetty, uint64_t opt, void* buf, uint32_t len);

// Makes an allocated jetty ready for use, after checking what urma_create_jetty checks. Its JFR and
// JFCs must be active. Calls for the same jetty must not overlap.
// Returns URMA_SUCCESS; URMA_EINVAL: NULL, active already, an inactive JFR or JFC, or a setting out
// of range; or the status of the provider.
// Specification: Jetty Management.
urma_status_t urma_active_jetty(urma_jetty_t* jetty);

// Reads option `opt`, one of URMA_JETTY_* or URMA_JFS_*, into the `len` bytes at `buf`.
// Thread-safe.
// Returns URMA_SUCCESS; URMA_EINVAL: a NULL argument, opt or len is 0, or the length is wrong; or
// the status of the provider.
// Specification: Jetty Management.
urma_status_t urma_get_jetty_opt(urma_jetty_t* jetty, uint64_t opt, void* buf, uint32_t len);

// Takes a jetty out of use; it can be set up and activated again, or freed. Completions that were
// not polled are dropped, as by urma_delete_jetty. Calls for the same jetty must not overlap.
// Returns URMA_SUCCESS; URMA_EINVAL: NULL or not active; or the status of the provider.
// Specification: Jetty Management.
urma_status_t urma_deactive_jetty(urma_jetty_t* jetty);

// Frees an inactive jetty. Calls for the same jetty must not overlap.
// Returns URMA_SUCCESS; URMA_EINVAL: NULL or still active; URMA_ENOPERM: an RC jetty that is still
// bound; or the status of the provider.
// Specification: Jetty Management.
urma_status_t urma_free_jetty(urma_jetty_t* jetty);

// Takes up to `cnt` results of *_async calls, 16 at most, into `notify`, waiting up to `timeout` ms
// for the first one (0: not at all, -1: indefinitely). An import that is reported as failed has
// ended. Thread-safe.
// Returns the number of results, 0: none in time or cnt is 0; -1: notifier or notify is NULL (errno
// EINVAL) or waiting failed; -URMA_EINVAL: the provider does not support it.
// Specification: Jetty Management.
int urma_wait_notify(urma_notifier_t* notifier, uint32_t cnt, urma_notify_t* notify, int timeout);

// Does nothing: urma_wait_notify acknowledges by itself. Kept for older programs. Thread-safe.
// Returns URMA_SUCCESS; URMA_EINVAL: an argument is NULL; -URMA_EINVAL: the provider does not
// support it.
// Specification: Jetty Management.
urma_status_t urma_ack_notify(urma_context_t* ctx, uint32_t cnt, urma_notify_t* notify);

// -------------------------------------------------------------------------------------------------
// Jetty groups and event channels
// -------------------------------------------------------------------------------------------------

// Makes a group that RM jetties join through their configuration. The caller ends it with
// urma_delete_jetty_grp. Thread-safe.
// Returns the group, or NULL with errno EINVAL: an argument is NULL, the name is not
// zero-terminated, or the device has no groups or a limit above URMA_MAX_JETTY_IN_JETTY_GRP; or
// what the provider set.
// Specification: Jetty Management.
urma_jetty_grp_t* urma_create_jetty_grp(urma_context_t* ctx, urma_jetty_grp_cfg_t* cfg);

// Ends a group. Delete its members first.
// Returns URMA_SUCCESS; URMA_EINVAL: NULL; URMA_ENOPERM: it still has members; or the status of the
// provider.
// Specification: Jetty Management.
urma_status_t urma_delete_jetty_grp(urma_jetty_grp_t* jetty_grp);

// Makes an event channel that any number of JFCs can report to; its fd can be polled. The caller
// ends it with urma_delete_jfce. Thread-safe.
// Returns the channel, or NULL with errno EINVAL: ctx is NULL; or what the provider set.
// Specification: Jetty Management.
urma_jfce_t* urma_create_jfce(urma_context_t* ctx);

// Ends an event channel. Delete the JFCs that use it first.
// Returns URMA_SUCCESS; URMA_EINVAL: NULL; URMA_FAIL: a JFC still uses it; or the status of the
// provider.
// Specification: Jetty Management.
urma_status_t urma_delete_jfce(urma_jfce_t* jfce);

// -------------------------------------------------------------------------------------------------
// Asynchronous events
// -------------------------------------------------------------------------------------------------

// Takes the next asynchronous event of a context into `event`, waiting for one unless ctx->async_fd
// is non-blocking. The fd can be polled. Acknowledge every event with urma_ack_async_event.
// Thread-safe.
// Returns URMA_SUCCESS; URMA_EINVAL: an argument is NULL; URMA_FAIL: no event, or interrupted.
// Specification: Exceptional Events.
urma_status_t urma_get_async_event(urma_context_t* ctx, urma_async_event_t* event);

// Acknowledges an event, once. An object can only be deleted after all of its events are
// acknowledged. NULL is ignored. Thread-safe.
// Specification: Exceptional Events.
void urma_ack_async_event(urma_async_event_t* event);

// -------------------------------------------------------------------------------------------------
// Segments
// -------------------------------------------------------------------------------------------------

// Makes a token id, under which a segment can be registered. The caller ends it with
// urma_free_token_id. Thread-safe.
// Returns the token id, or NULL with errno EINVAL: ctx is NULL; or what the provider set.
// Specification: Segment Management.
urma_token_id_t* urma_alloc_token_id(urma_context_t* ctx);

// As urma_alloc_token_id, with settings: flag.bs.multi_seg lets several segments share the token id
// and needs the device feature muti_seg_per_token_id. Thread-safe.
// Returns the token id, or NULL with errno EINVAL: ctx is NULL or the feature is missing; or what
// the provider set.
// Specification: Segment Management.
urma_token_id_t* urma_alloc_token_id_ex(urma_context_t* ctx, urma_token_id_flag_t flag);

// Ends a token id. Unregister the segments under it first.
// Returns URMA_SUCCESS; URMA_EINVAL: NULL or still used; or the status of the provider.
// Specification: Segment Management.
urma_status_t urma_free_token_id(urma_token_id_t* token_id);

// Makes `len` bytes at `va` known to the device, for local use and, as far as the access bits
// allow, for others. The memory stays the caller's and must stay mapped. Send the seg of the result
// to importers, or see urma_get_seg_ctx. The caller ends it with urma_unregister_seg. Thread-safe.
// Returns the segment, or NULL with errno EINVAL: an argument is NULL, va is 0, token_id and
// token_id_valid disagree (UB only), LOCAL_ONLY comes with other access bits, WRITE without READ,
// or ATOMIC without both, or a bit has no meaning; or what the provider set.
// Specification: Segment Management.
urma_target_seg_t* urma_register_seg(urma_context_t* ctx, urma_seg_cfg_t* seg_cfg);

// Ends a registration: later accesses by others are refused, and those under way have ended; limits
// are in docs/reference/security.md of the source. Requests that still need it fail, and so do
// receives.
// Returns URMA_SUCCESS; URMA_EINVAL: NULL; URMA_FAIL: the provider failed.
// Specification: Segment Management.
urma_status_t urma_unregister_seg(urma_target_seg_t* target_seg);

// Makes the remote segment described by `seg` a target of reads, writes and atomics. `token_value`
// is what its owner set; it may be NULL under URMA_TOKEN_NONE. A wrong token shows at the first
// access. Requests reach everything that the owner's registrations of seg->token_id grant under
// this token value, within the owner's ranges and rights; seg->len and seg->ubva.va, which may be
// 0, do not limit them. With flag.bs.mapping the memory is also mapped if possible, with at most
// the rights of flag.bs.access (0: no limit); mva is its address, 0: not mapped. With
// seg->attr.bs.dsva and either flag.bs.mapping or `addr`, it is mapped at its owner's address;
// `addr` is that address, or 0. Otherwise `addr` has no effect. The caller ends it with
// urma_unimport_seg. Thread-safe.
// Returns the segment, or NULL with errno EINVAL: ctx or seg is NULL, the token is missing, the
// policy is not supported, or addr is not the owner's address; EEXIST: with dsva, the address is in
// use; or what the provider set.
// Specification: Segment Management.
urma_target_seg_t* urma_import_seg(urma_context_t* ctx, urma_seg_t* seg, urma_token_t* token_value,
                                   uint64_t addr, urma_import_seg_flag_t flag);

// Ends an import; its mva must not be used any more. No request to it may be in flight. What the
// owner granted may be kept for the next import (over shared memory: urma_shm(7)).
// Returns URMA_SUCCESS; URMA_EINVAL: NULL; or the status of the provider.
// Specification: Segment Management.
urma_status_t urma_unimport_seg(urma_target_seg_t* tseg);

// Makes the descriptor with which others import `tseg`: `*size` bytes that can be sent as they are.
// The caller frees it with urma_put_seg_ctx. Thread-safe.
// Returns URMA_SUCCESS; URMA_EINVAL: an argument is NULL; URMA_ENOMEM; URMA_FAIL: the provider of
// an aggregated device failed, and *seg stays NULL.
// Specification: Segment Management.
urma_status_t urma_get_seg_ctx(urma_target_seg_t* tseg, urma_seg_t** seg, uint32_t* size);

// Frees a descriptor of urma_get_seg_ctx; NULL is allowed. Thread-safe.
// Specification: Segment Management.
void urma_put_seg_ctx(urma_seg_t* seg);

// -------------------------------------------------------------------------------------------------
// Posting work requests
// -------------------------------------------------------------------------------------------------

// The calls of this section return once the request is in its queue; a completion record tells how
// it ended. Buffers belong to the device until then, except for inline data, which is copied at
// once. The caller makes sure that the JFC has room. Requests, their lists and pieces may be reused
// after the call.

// Posts the list of send requests `wr` in order. On failure `*bad_wr` is the first one that was not
// posted; the ones before it are. Thread-safe, unless flag.bs.lock_free is set.
// Returns URMA_SUCCESS; URMA_EINVAL: an argument is NULL, or the operation, number of pieces,
// inline or atomic length is not possible; URMA_ENOMEM: the queue is full; or the status of the
// provider.
// Specification: Unilateral Operations, Bidirectional Operations.
urma_status_t urma_post_jfs_wr(urma_jfs_t* jfs, urma_jfs_wr_t* wr, urma_jfs_wr_t** bad_wr);

// Posts the list of receive requests `wr` in order; messages consume them in this order. On failure
// `*bad_wr` is the first one that was not posted. Thread-safe, unless flag.bs.lock_free is set.
// Returns URMA_SUCCESS; URMA_EINVAL: an argument is NULL or there are too many pieces; URMA_ENOMEM:
// the queue is full; or the status of the provider.
// Specification: Bidirectional Operations.
urma_status_t urma_post_jfr_wr(urma_jfr_t* jfr, urma_jfr_wr_t* wr, urma_jfr_wr_t** bad_wr);

// As urma_post_jfs_wr, for a jetty. An RC jetty sends to its bound peer and ignores wr->tjetty.
// Thread-safe, unless flag.bs.lock_free of its send queue is set.
// Returns what urma_post_jfs_wr returns; URMA_EINVAL too for an RC jetty that is not bound.
// Specification: Unilateral Operations, Bidirectional Operations.
urma_status_t urma_post_jetty_send_wr(urma_jetty_t* jetty, urma_jfs_wr_t* wr,
                                      urma_jfs_wr_t** bad_wr);

// As urma_post_jfr_wr, for the JFR through which the jetty receives. Thread-safe, unless
// flag.bs.lock_free of that JFR is set.
// Returns what urma_post_jfr_wr returns.
// Specification: Bidirectional Operations.
urma_status_t urma_post_jetty_recv_wr(urma_jetty_t* jetty, urma_jfr_wr_t* wr,
                                      urma_jfr_wr_t** bad_wr);

// Posts a WRITE of `len` bytes from local `src` in `src_tseg` to remote `dst` in the imported
// `dst_tseg`. src_tseg may be NULL for inline data. `user_ctx` comes back in the completion record;
// a request that succeeds leaves one only if flag.bs.complete_enable is set. Thread-safe, unless
// the queue is lock_free.
// Returns URMA_SUCCESS; URMA_EINVAL: jfs, target_jfr or dst_tseg is NULL, or a length is not
// possible; URMA_ENOMEM: the queue is full; or the status of the provider.
// Specification: Unilateral Operations.
urma_status_t urma_write(urma_jfs_t* jfs, urma_target_jetty_t* target_jfr,
                         urma_target_seg_t* dst_tseg, urma_target_seg_t* src_tseg, uint64_t dst,
                         uint64_t src, uint32_t len, urma_jfs_wr_flag_t flag, uint64_t user_ctx);

// Posts a READ of `len` bytes from remote `src` in the imported `src_tseg` to local `dst` in
// `dst_tseg`. The rest is as in urma_write. Thread-safe, unless the queue is lock_free.
// Returns URMA_SUCCESS; URMA_EINVAL: jfs, target_jfr or a segment is NULL, or a length is not
// possible; URMA_ENOMEM: the queue is full; or the status of the provider.
// Specification: Unilateral Operations.
urma_status_t urma_read(urma_jfs_t* jfs, urma_target_jetty_t* target_jfr,
                        urma_target_seg_t* dst_tseg, urma_target_seg_t* src_tseg, uint64_t dst,
                        uint64_t src, uint32_t len, urma_jfs_wr_flag_t flag, uint64_t user_ctx);

// Posts a SEND of the `len` bytes at `src` in `src_tseg` to an imported JFR. src_tseg may be NULL
// only with flag.bs.inline_flag. The rest is as in urma_write. Thread-safe, unless the queue is
// lock_free.
// Returns URMA_SUCCESS; URMA_EINVAL: jfs or target_jfr is NULL, src_tseg is missing, or a length is
// not possible; URMA_ENOMEM: the queue is full; or the status of the provider.
// Specification: Bidirectional Operations.
urma_status_t urma_send(urma_jfs_t* jfs, urma_target_jetty_t* target_jfr,
                        urma_target_seg_t* src_tseg, uint64_t src, uint32_t len,
                        urma_jfs_wr_flag_t flag, uint64_t user_ctx);

// Posts a receive of up to `len` bytes at `buf` in `recv_tseg`. It always leaves a completion
// record, with `user_ctx`. Thread-safe, unless the queue is lock_free.
// Returns URMA_SUCCESS; URMA_EINVAL: jfr or recv_tseg is NULL; URMA_FAIL: buf is 0; URMA_ENOMEM:
// the queue is full; or the status of the provider.
// Specification: Bidirectional Operations.
urma_status_t urma_recv(urma_jfr_t* jfr, urma_target_seg_t* recv_tseg, uint64_t buf, uint32_t len,
                        uint64_t user_ctx);

// -------------------------------------------------------------------------------------------------
// Completions
// -------------------------------------------------------------------------------------------------

// Takes up to `cr_cnt` completion records into `cr`, without waiting. Records of one queue come in
// the order of its requests, unless it allows otherwise. Thread-safe, unless flag.bs.lock_free is
// set.
// Returns the number of records, 0: none; -1: an argument is NULL or cr_cnt is negative; another
// negative value: the provider failed.
// Specification: Completion Record.
int urma_poll_jfc(urma_jfc_t* jfc, int cr_cnt, urma_cr_t* cr);

// Arms a JFC: its next completion raises one event at its JFCE, or at once if records are waiting.
// With `solicited_only`, only a solicited or failed request counts. The event disarms the JFC. If
// the program sleeps on jfce->fd itself, it may first look for the event for URMA_BUSY_POLL_US.
// Thread-safe.
// Returns URMA_SUCCESS; URMA_EINVAL: NULL; or the status of the provider.
// Specification: Completion Record.
urma_status_t urma_rearm_jfc(urma_jfc_t* jfc, bool solicited_only);

// Waits up to `time_out` ms (0: not at all, -1: indefinitely) for events and puts up to `jfc_cnt`
// JFCs, 16 at most, that raised one into `jfc`. Acknowledge each event with urma_ack_jfc. Then poll
// until empty, and arm again; acknowledging, arming and polling may come in any order after it. If
// events come faster than the kernel wakes a thread, it looks for them instead of sleeping, for up
// to URMA_BUSY_POLL_US at a time. Thread-safe.
// Returns the number of JFCs, 0: none in time; -1: an argument is NULL, jfc_cnt is 0, or waiting
// failed or was interrupted (errno).
// Specification: Completion Record.
int urma_wait_jfc(urma_jfce_t* jfce, uint32_t jfc_cnt, int time_out, urma_jfc_t** jfc);

// Acknowledges events: nevents[i] of them for jfc[i], for `jfc_cnt` entries. Entries that are NULL
// or have 0 events are skipped; NULL arrays are ignored. A JFC can only be deleted after all of its
// events are acknowledged. Thread-safe.
// Specification: Completion Record.
void urma_ack_jfc(urma_jfc_t** jfc, uint32_t* nevents, uint32_t jfc_cnt);

// -------------------------------------------------------------------------------------------------
// Process number and provider control
// -------------------------------------------------------------------------------------------------

// Reads the number of this process, which is part of its addresses. Thread-safe after urma_init.
// Returns URMA_SUCCESS; URMA_EINVAL: NULL; URMA_FAIL: there is none.
// Specification: Context Management.
urma_status_t urma_get_uasid(uint32_t* uasid);

// Sends a command to the provider of a context; `in->opcode` is defined by the provider;
// urma_ubagg.h has those of aggregated devices. The buffers named by `in` and `out` belong to the
// caller. Thread-safe.
// Returns URMA_SUCCESS; URMA_EINVAL: an argument is NULL; URMA_ENOPERM: forbidden; URMA_FAIL: every
// other failure of the provider.
// Specification: Context Management.
urma_status_t urma_user_ctl(urma_context_t* ctx, urma_user_ctl_in_t* in, urma_user_ctl_out_t* out);

// -------------------------------------------------------------------------------------------------
// Log
// -------------------------------------------------------------------------------------------------

// Sends the log to `func` instead of the sink of URMA_LOG_SINK, and drops a function of
// urma_register_loc_log_func. Each text ends with a newline. The function may be called from any
// thread. It may ask for devices and groups, and replace itself, but make no other call: the
// library may hold locks while it writes a line. An earlier function has returned when this
// returns, unless it makes this call itself: so hold no lock that it takes. Thread-safe, also
// before urma_init.
// Returns URMA_SUCCESS; URMA_EINVAL: NULL.
// Specification: Context Management.
urma_status_t urma_register_log_func(urma_log_cb_t func);

// As urma_register_log_func, for a function that also gets the source location. The last
// registration counts. Thread-safe.
// Returns URMA_SUCCESS; URMA_EINVAL: NULL.
// Specification: Context Management.
urma_status_t urma_register_loc_log_func(urma_loc_log_cb func);

// Sends the log again to where it goes without a function: URMA_LOG_SINK, stderr by default.
// Thread-safe; waits for the function as urma_register_log_func does.
// Returns URMA_SUCCESS.
// Specification: Context Management.
urma_status_t urma_unregister_log_func(void);

// Reads the level up to which lines are logged: URMA_VLOG_LEVEL_INFO, or what URMA_LOG_LEVEL said
// at start. Thread-safe.
// Returns the level.
// Specification: Context Management.
urma_vlog_level_t urma_log_get_level(void);

// Sets the level up to which lines are logged. URMA_VLOG_LEVEL_MAX and above are ignored. stderr
// gets no line below WARNING, whatever the level, unless URMA_LOG_LEVEL is debug. Thread-safe.
// Specification: Context Management.
void urma_log_set_level(urma_vlog_level_t level);

// Reads the tag that the log lines of the calling thread carry, "-" at first. Thread-safe.
// Returns a string that belongs to the library and to this thread; urma_log_set_thread_tag
// overwrites it.
// Specification: Context Management.
const char* urma_log_get_thread_tag(void);

// Sets the tag of the calling thread; the string is copied. NULL and tags of 64 or more characters
// are ignored. Thread-safe.
// Specification: Context Management.
void urma_log_set_thread_tag(const char* tag);

// -------------------------------------------------------------------------------------------------
// Transport channels and network addresses
// -------------------------------------------------------------------------------------------------

// Reads the number of the transport channel of a jetty. Thread-safe.
// Returns the number; -URMA_EINVAL: NULL.
// Specification: Jetty Management.
int urma_get_tpn(urma_jetty_t* jetty);

// Lists the network addresses of a context: the one of its EID. `cnt` receives their number, 1. The
// caller frees the array with urma_free_net_addr_list. Thread-safe.
// Returns the array, or NULL with errno EINVAL: an argument is NULL or the device has no network
// addresses; or what the provider set.
// Specification: Device Attributes.
urma_net_addr_info_t* urma_get_net_addr_list(urma_context_t* ctx, uint32_t* cnt);

// Frees an array of urma_get_net_addr_list; NULL is allowed. Thread-safe.
// Specification: Device Attributes.
void urma_free_net_addr_list(urma_net_addr_info_t* net_addr_list);

// Changes the channel `tpn`: `mask` says which members of `attr` apply. Thread-safe.
// Returns 0; URMA_EINVAL: an argument is NULL; or the value of the provider.
// Specification: Jetty Management.
int urma_modify_tp(urma_context_t* ctx, uint32_t tpn, urma_tp_cfg_t* cfg, urma_tp_attr_t* attr,
                   urma_tp_attr_mask_t mask);

// Lists the channels between two EIDs that `cfg` allows, for the *_ex calls. `*tp_cnt` is the room
// in `tp_list`, and becomes the number of channels in it. Thread-safe.
// Returns URMA_SUCCESS; URMA_EINVAL: an argument is NULL, *tp_cnt is 0, or trans_mode is not one
// mode; or the status of the provider.
// Specification: Jetty Management.
urma_status_t urma_get_tp_list(urma_context_t* ctx, urma_get_tp_cfg_t* cfg, uint32_t* tp_cnt,
                               urma_tp_info_t* tp_list);

// Sets attributes of a channel of urma_get_tp_list: bit n of `tp_attr_bitmap` is the n-th member of
// `tp_attr`, `tp_attr_cnt` the number of bits. Bit 16 is ignored. Thread-safe.
// Returns URMA_SUCCESS; URMA_EINVAL: ctx or tp_attr is NULL; or the status of the provider.
// Specification: Jetty Management.
urma_status_t urma_set_tp_attr(const urma_context_t* ctx, const uint64_t tp_handle,
                               const uint8_t tp_attr_cnt, const uint32_t tp_attr_bitmap,
                               const urma_tp_attr_value_t* tp_attr);

// Reads the attributes of a channel of urma_get_tp_list; `*tp_attr_bitmap` and `*tp_attr_cnt`
// become the valid members of `tp_attr` and their number. Thread-safe.
// Returns URMA_SUCCESS; URMA_EINVAL: an argument is NULL; or the status of the provider.
// Specification: Jetty Management.
urma_status_t urma_get_tp_attr(const urma_context_t* ctx, const uint64_t tp_handle,
                               uint8_t* tp_attr_cnt, uint32_t* tp_attr_bitmap,
                               urma_tp_attr_value_t* tp_attr);

// Finds the EID of an IP address; only family and address of `net_addr` count. Thread-safe.
// Returns URMA_SUCCESS; URMA_EINVAL: an argument is NULL; or the status of the provider.
// Specification: Device Attributes.
urma_status_t urma_get_eid_by_ip(const urma_context_t* ctx, const urma_net_addr_t* net_addr,
                                 urma_eid_t* eid);

// Finds the IP address of an EID; family and address of `net_addr` are written. Thread-safe.
// Returns URMA_SUCCESS; URMA_EINVAL: an argument is NULL; or the status of the provider.
// Specification: Device Attributes.
urma_status_t urma_get_ip_by_eid(const urma_context_t* ctx, const urma_eid_t* eid,
                                 urma_net_addr_t* net_addr);

// Reads the MAC address of the context into the URMA_MAC_BYTES bytes at `mac`. Thread-safe.
// Returns URMA_SUCCESS; URMA_EINVAL: an argument is NULL; or the status of the provider.
// Specification: Device Attributes.
urma_status_t urma_get_smac(const urma_context_t* ctx, uint8_t* mac);

// Finds the MAC address of an IP address and puts it into the URMA_MAC_BYTES bytes at `mac`; only
// family and address of `net_addr` count. Thread-safe.
// Returns URMA_SUCCESS; URMA_EINVAL: an argument is NULL; or the status of the provider.
// Specification: Device Attributes.
urma_status_t urma_get_dmac(const urma_context_t* ctx, const urma_net_addr_t* net_addr,
                            uint8_t* mac);

#ifdef __cplusplus
}
#endif

#endif  // URMA_API_H
