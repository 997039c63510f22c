// SPDX-License-Identifier: MIT
//
// amd_rdma in user space: memory of GPUs that other devices may access.
#ifndef URMA_PROVIDERS_ROCM_PINS_H_
#define URMA_PROVIDERS_ROCM_PINS_H_

#include <cstdint>
#include <set>

#include "urma/base/mutex.h"
#include "urma/providers/rocm/runtime.h"
#include "urma_ext.h"

namespace urma::rocm {

// Thread-safe. A process has at most one.
class Pins {
 public:
  // `runtime` outlives it.
  explicit Pins(const HsaRuntime* runtime);
  ~Pins();
  Pins(const Pins&) = delete;
  Pins& operator=(const Pins&) = delete;

  static const urma_ext_rdma_interface_t* interface();

 private:
  struct Pin;

  static int pin(uint64_t va, uint64_t bytes, const char* device, urma_ext_pinned_t** pinned,
                 void (*free_callback)(void*), void* client_priv) noexcept;
  static int pin_1_0(uint64_t va, uint64_t bytes, urma_ext_pinned_t** pinned,
                     void (*free_callback)(void*), void* client_priv) noexcept;
  static int unpin(urma_ext_pinned_t** pinned) noexcept;
  static int is_device_va(uint64_t va) noexcept;
  static int va_page_size(uint64_t va, uint64_t bytes, unsigned long* page_size) noexcept;
  static void on_freed(void* base, void* pins);

  // False if it is not memory of a GPU, or the range leaves its allocation.
  bool find(uint64_t va, uint64_t bytes, hsa_amd_pointer_info_t* info) const;
  int make(uint64_t va, uint64_t bytes, urma_ext_pinned_t** pinned, void (*free_callback)(void*),
           void* client_priv);
  int end(Pin* pin);
  void freed(uint64_t base);

  const HsaApi& api() const { return runtime_->api(); }

  const HsaRuntime* const runtime_;
  // Recursive: a program that is told that memory goes may unpin it at once.
  RecursiveMutex mutex_;
  std::set<Pin*> pins_ URMA_GUARDED_BY(mutex_);
};

}  // namespace urma::rocm

#endif  // URMA_PROVIDERS_ROCM_PINS_H_
