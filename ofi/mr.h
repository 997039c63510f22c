/* SPDX-License-Identifier: MIT */

// Registered memory, and the keys by which peers reach it.

#ifndef OFI_MR_H
#define OFI_MR_H

#include <rdma/fi_domain.h>

#include "ofi/fid.h"
#include "urma_types.h"

namespace urma_fi {

class Domain;

// A key is the token id of a segment and its token value: the key alone gives access to the memory.
uint64_t make_key(uint32_t token_id, uint32_t token);
urma_user_tseg_t target_of_key(uint64_t key);

class Mr final : public fid_mr {
 public:
  static fi_ops_mr ops;

 private:
  explicit Mr(Domain* domain) : domain_(domain) {}
  int make(const iovec& memory, uint64_t access);

  static int open(fid_t domain, const fi_mr_attr* attr, uint64_t flags, fid_mr** mr);
  static int open_one(fid_t domain, const void* memory, size_t size, uint64_t access,
                      uint64_t offset, uint64_t key, uint64_t flags, fid_mr** mr, void* context);
  static int open_vector(fid_t domain, const iovec* pieces, size_t count, uint64_t access,
                         uint64_t offset, uint64_t key, uint64_t flags, fid_mr** mr, void* context);
  static int close(fid_t head);

  static fi_ops fid_ops_;

  Domain* domain_;
  urma_target_seg_t* segment_ = nullptr;
};

// The segment behind a descriptor, NULL for NULL.
inline urma_target_seg_t* segment_of(void* descriptor) {
  return static_cast<urma_target_seg_t*>(descriptor);
}

}  // namespace urma_fi

#endif  // OFI_MR_H
