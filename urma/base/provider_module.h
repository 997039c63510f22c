// SPDX-License-Identifier: MIT
//
// A module with one provider: the C functions that the library calls, over a class.
#ifndef URMA_BASE_PROVIDER_MODULE_H_
#define URMA_BASE_PROVIDER_MODULE_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "urma/base/error.h"
#include "urma/base/guard.h"
#include "urma/base/host.h"

namespace urma {

// `Provider` exists between init and uninit. All of it may throw Error, except its destructor:
//
//   static constexpr char kName[];
//   explicit Provider(urma_provider_ops_t* ops);  // adds its devices
//   bool has_devices() const;
//   const urma_device_attr_t& attr_of(const urma_device_t& dev) const;
//   size_t eids_of(const urma_device_t& dev) const;
//   urma_context_t* open_context(urma_device_t* dev, uint32_t eid_index);
//   static void close_context(Provider* provider, urma_context_t* ctx);  // NULL: it has ended
template <typename Provider>
class ProviderModule {
 public:
  // The body of the module's exported function.
  static int enter(uint32_t version, const urma_host* table) {
    return enter_module(version, table, &ops_);
  }
  static Provider& provider() {
    if (provider_ == nullptr) fail(URMA_EINVAL, "the library is not initialised");
    return *provider_;
  }

 private:
  static urma_status_t init(urma_init_attr_t* /*conf*/) noexcept {
    return guarded(URMA_LOG_SITE, [] {
      if (provider_ != nullptr) {
        fail(URMA_EEXIST, "the {} provider is initialised already", Provider::kName);
      }
      provider_ = std::make_unique<Provider>(&ops_).release();
      return URMA_SUCCESS;
    });
  }
  static urma_status_t uninit() noexcept {
    delete std::exchange(provider_, nullptr);
    return URMA_SUCCESS;
  }
  static urma_status_t query_device(urma_device_t* dev, urma_device_attr_t* attr) noexcept {
    return guarded(URMA_LOG_SITE, [=] {
      *attr = provider().attr_of(*dev);
      return URMA_SUCCESS;
    });
  }
  static urma_context_t* create_context(urma_device_t* dev, uint32_t eid_index,
                                        int /*dev_fd*/) noexcept {
    return guarded(URMA_LOG_SITE, [=] {
      const size_t eids = provider().eids_of(*dev);
      if (eid_index >= eids) {
        fail(URMA_EINVAL, "create_context: eid_index {} is out of range; the device has {} EIDs",
             eid_index, eids);
      }
      return provider_->open_context(dev, eid_index);
    });
  }
  static urma_status_t delete_context(urma_context_t* ctx) noexcept {
    return guarded(URMA_LOG_SITE, [=] {
      Provider::close_context(provider_, ctx);
      return URMA_SUCCESS;
    });
  }
  static urma_status_t get_uasid(uint32_t* uasid) noexcept {
    return guarded(URMA_LOG_SITE, [=] {
      if (provider_ == nullptr || !provider_->has_devices()) return URMA_FAIL;
      *uasid = host()->runtime()->uasid();
      return URMA_SUCCESS;
    });
  }

  static constexpr urma_provider_ops_t make_ops() {
    urma_provider_ops_t made = {};
    made.name = Provider::kName;
    made.attr = {1, URMA_TRANSPORT_UB};
    made.init = init;
    made.uninit = uninit;
    made.query_device = query_device;
    made.create_context = create_context;
    made.delete_context = delete_context;
    made.get_uasid = get_uasid;
    return made;
  }

  static inline urma_provider_ops_t ops_ = make_ops();
  // Not destroyed by exit(): the service thread may be using it.
  static inline Provider* provider_ = nullptr;
};

}  // namespace urma

#endif  // URMA_BASE_PROVIDER_MODULE_H_
