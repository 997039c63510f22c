// SPDX-License-Identifier: MIT
//
// A context of a provider.
#ifndef JETTY_CONTEXT_H_
#define JETTY_CONTEXT_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "jetty/async_events.h"
#include "jetty/channels.h"
#include "jetty/transport.h"
#include "urma_provider.h"

namespace urma {

class Context : public urma_context_t {
 public:
  // Of one of several devices over a transport: `faults` are those of that device, and outlive it;
  // NULL: those of the transport.
  Context(Transport* transport, const urma_device_attr_t& attr, urma_device_t* device,
          uint32_t eid_index, Faults* faults = nullptr);

  urma_jfce_t* create_jfce();
  urma_target_jetty_t* import_jfr(urma_rjfr_t* rjfr, urma_token_t* token);
  urma_target_jetty_t* import_jetty(urma_rjetty_t* rjetty, urma_token_t* token);
  urma_token_id_t* alloc_token_id(urma_token_id_flag_t flag);
  urma_target_seg_t* register_seg(urma_seg_cfg_t* cfg);
  // The same for memory that this process must not touch; `enter` does what Transport::enter() does
  // for other segments. Throws Error.
  urma_target_seg_t* register_foreign(urma_seg_cfg_t* cfg,
                                      const std::function<void(Segment*)>& enter);
  urma_target_seg_t* import_seg(urma_seg_t* seg, urma_token_t* token, uint64_t addr,
                                urma_import_seg_flag_t flag);

  urma_status_t get_async_event(urma_async_event_t* event);

  // The configuration that a queue gets: as `asked`, with the device's defaults for what was left
  // open. Throws Error if the device cannot provide it.
  urma_jfs_cfg_t effective(const urma_jfs_cfg_t& asked) const;
  urma_jfr_cfg_t effective(const urma_jfr_cfg_t& asked) const;

  Transport& transport() { return *transport_; }
  // NULL if no faults were asked for.
  Faults* faults() const { return faults_; }
  // Index of its EID in transport().eids(). The public eid_index is the program's: an aggregated
  // device has one EID, which may be any of these.
  uint32_t own_eid() const { return own_eid_; }
  // An id of this context, as peers name it.
  urma_jetty_id_t full_id(uint32_t id) const { return {transport_->eid(own_eid_), uasid, id}; }
  AsyncEvents& events() { return events_; }
  ChannelTable& channels() { return *channels_; }
  // The number of a channel, used by an import from now on.
  ChannelUse use_channel(uint32_t number) { return {channels_, number}; }

 private:
  std::unique_ptr<Segment> describe(const urma_seg_cfg_t& cfg);
  urma_target_jetty_t* import_queue(const urma_jetty_id_t& id, urma_target_type_t type,
                                    urma_transport_mode_t mode, urma_import_jetty_flag_t flag,
                                    urma_tp_type_t tp_type, const urma_token_t* token);

  Transport* transport_;
  Faults* const faults_;
  const uint32_t own_eid_;
  const urma_device_cap_t caps_;
  AsyncEvents events_;
  const std::shared_ptr<ChannelTable> channels_;
};

}  // namespace urma

#endif  // JETTY_CONTEXT_H_
