/* SPDX-License-Identifier: MIT */

#include "ofi/log.h"

#include <rdma/fi_errno.h>

#include <cerrno>

#include "urma_types_str.h"

namespace urma_fi {

int error_of_status(urma_status_t status) {
  // Below URMA_FAIL a status is an errno value, and so are libfabric's codes.
  return status > 0 && status < URMA_FAIL ? -status : -FI_EOTHER;
}

int error_of_errno() { return errno > 0 ? -errno : -FI_EOTHER; }

int error_of_completion(urma_cr_status_t status, bool receive, bool one_sided) {
  switch (status) {
    case URMA_CR_SUCCESS:
      return 0;
    case URMA_CR_UNSUPPORTED_OPCODE_ERR:
    case URMA_CR_REM_UNSUPPORTED_REQ_ERR:
      return FI_EOPNOTSUPP;
    case URMA_CR_LOC_LEN_ERR:
      return receive ? FI_ETRUNC : FI_EMSGSIZE;
    case URMA_CR_REM_RESP_LEN_ERR:
      return FI_EMSGSIZE;
    case URMA_CR_LOC_ACCESS_ERR:
      return FI_EACCES;
    case URMA_CR_REM_ACCESS_ABORT_ERR:
      return one_sided ? FI_EACCES : FI_ECONNRESET;
    case URMA_CR_ACK_TIMEOUT_ERR:
      return FI_ECONNRESET;
    case URMA_CR_RNR_RETRY_CNT_EXC_ERR:
      return FI_ENORX;
    case URMA_CR_WR_FLUSH_ERR:
    case URMA_CR_WR_UNHANDLED:
      return FI_ECANCELED;
    default:
      return FI_EIO;
  }
}

const char* completion_text(int status) {
  return urma_cr_status_to_string(static_cast<urma_cr_status_t>(status));
}

}  // namespace urma_fi
