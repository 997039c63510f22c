/* SPDX-License-Identifier: MIT */

#include "ofi/mr.h"

#include <rdma/fi_errno.h>

#include <memory>

#include "ofi/atomics.h"
#include "ofi/domain.h"
#include "ofi/log.h"
#include "ofi/random.h"
#include "urma_api.h"

namespace urma_fi {
namespace {

// Flags of the layers above; they have no meaning here.
constexpr uint64_t kPrivateFlags = 15ULL << 60;
constexpr uint64_t kRemote = FI_REMOTE_READ | FI_REMOTE_WRITE;

// In URMA, write access needs read access. In libfabric, it includes atomics.
uint32_t access_of(uint64_t access, const urma_device_cap_t& cap) {
  if ((access & FI_REMOTE_WRITE) != 0) {
    const uint32_t atomic = has_atomics(cap) ? URMA_ACCESS_ATOMIC : 0;
    return URMA_ACCESS_READ | URMA_ACCESS_WRITE | atomic;
  }
  return (access & FI_REMOTE_READ) != 0 ? URMA_ACCESS_READ : URMA_ACCESS_LOCAL_ONLY;
}

}  // namespace

fi_ops Mr::fid_ops_ = {sizeof(fi_ops), Mr::close, refuse, refuse, refuse, refuse, refuse};
fi_ops_mr Mr::ops = {sizeof(fi_ops_mr), Mr::open_one, Mr::open_vector, Mr::open};

uint64_t make_key(uint32_t token_id, uint32_t token) {
  return static_cast<uint64_t>(token_id) << 32 | token;
}

urma_user_tseg_t target_of_key(uint64_t key) {
  urma_user_tseg_t target{};
  target.attr.bs.token_policy = URMA_TOKEN_PLAIN_TEXT;
  target.token_id = static_cast<uint32_t>(key >> 32);
  target.token_value.token = static_cast<uint32_t>(key);
  return target;
}

int Mr::make(const iovec& memory, uint64_t access) {
  urma_seg_cfg_t cfg{};
  cfg.va = reinterpret_cast<uintptr_t>(memory.iov_base);
  cfg.len = memory.iov_len;
  cfg.token_value.token = static_cast<uint32_t>(random_number());
  cfg.flag.bs.token_policy = URMA_TOKEN_PLAIN_TEXT;
  cfg.flag.bs.access = access_of(access, domain_->device()->cap());
  segment_ = urma_register_seg(domain_->device()->context(), &cfg);
  if (segment_ == nullptr) return error_of_errno();
  mem_desc = segment_;
  key = (access & kRemote) != 0 ? make_key(segment_->seg.token_id, cfg.token_value.token)
                                : FI_KEY_NOTAVAIL;
  return 0;
}

int Mr::open(fid_t domain, const fi_mr_attr* attr, uint64_t flags, fid_mr** mr) {
  if (domain->fclass != FI_CLASS_DOMAIN || attr->iov_count != 1 || (flags & ~kPrivateFlags) != 0 ||
      attr->auth_key_size != 0) {
    URMA_FI_WARN(
        FI_LOG_MR,
        "registration with %zu pieces and flags %#llx; only one piece without flags is supported\n",
        attr->iov_count, static_cast<unsigned long long>(flags));
    return -FI_EINVAL;
  }
  std::unique_ptr<Mr> made(new Mr(object_of<Domain, fid_domain>(domain)));
  made->fid = {FI_CLASS_MR, attr->context, &fid_ops_};
  const int error = made->make(attr->mr_iov[0], attr->access);
  if (error != 0) {
    URMA_FI_WARN(FI_LOG_MR, "%zu bytes at %p cannot be registered: %s\n", attr->mr_iov[0].iov_len,
                 attr->mr_iov[0].iov_base, fi_strerror(-error));
    return error;
  }
  made->domain_->users.take();
  *mr = made.release();
  return 0;
}

int Mr::open_vector(fid_t domain, const iovec* pieces, size_t count, uint64_t access,
                    uint64_t offset, uint64_t key, uint64_t flags, fid_mr** mr, void* context) {
  fi_mr_attr attr{};
  attr.mr_iov = pieces;
  attr.iov_count = count;
  attr.access = access;
  attr.offset = offset;
  attr.requested_key = key;
  attr.context = context;
  return open(domain, &attr, flags, mr);
}

int Mr::open_one(fid_t domain, const void* memory, size_t size, uint64_t access, uint64_t offset,
                 uint64_t key, uint64_t flags, fid_mr** mr, void* context) {
  const iovec piece = {const_cast<void*>(memory), size};
  return open_vector(domain, &piece, 1, access, offset, key, flags, mr, context);
}

int Mr::close(fid_t head) {
  Mr* mr = object_of<Mr, fid_mr>(head);
  const urma_status_t status = urma_unregister_seg(mr->segment_);
  if (status != URMA_SUCCESS) return error_of_status(status);
  mr->domain_->users.drop();
  delete mr;
  return 0;
}

}  // namespace urma_fi
