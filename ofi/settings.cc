/* SPDX-License-Identifier: MIT */

#include "ofi/settings.h"

#include <rdma/providers/fi_prov.h>

#include <cstdlib>

#include "ofi/log.h"

namespace urma_fi {
namespace {

constexpr size_t kDefaultDepth = 256;
// A program may compute for long before it reads its event queue again.
constexpr int kDefaultConnectTimeout = 600000;

size_t depth(const char* name) {
  size_t value = 0;
  return fi_param_get_size_t(&provider, name, &value) == 0 && value > 0 ? value : kDefaultDepth;
}

}  // namespace

void define_settings() {
  fi_param_define(&provider, "device", FI_PARAM_STRING,
                  "the only URMA device to offer (default: all)");
  fi_param_define(&provider, "rxm", FI_PARAM_BOOL,
                  "let ofi_rxm build endpoints of type FI_EP_RDM on urma; libfabric then lists "
                  "them before those of urma itself (default: no)");
  fi_param_define(&provider, "tx_size", FI_PARAM_SIZE_T,
                  "sends that an endpoint holds (default: %zu)", kDefaultDepth);
  fi_param_define(&provider, "rx_size", FI_PARAM_SIZE_T,
                  "receives that an endpoint holds (default: %zu)", kDefaultDepth);
  fi_param_define(&provider, "connect_timeout", FI_PARAM_INT,
                  "timeout of a connection request in milliseconds (default: %d)",
                  kDefaultConnectTimeout);
}

std::chrono::milliseconds connect_timeout() {
  int value = 0;
  const bool set = fi_param_get_int(&provider, "connect_timeout", &value) == 0 && value > 0;
  return std::chrono::milliseconds(set ? value : kDefaultConnectTimeout);
}

bool offers_layers() {
  int value = 0;
  return fi_param_get_bool(&provider, "rxm", &value) == 0 && value != 0;
}

std::string only_device() {
  char* name = nullptr;
  if (fi_param_get_str(&provider, "device", &name) != 0 || name == nullptr) return {};
  return name;
}

size_t default_send_depth() { return depth("tx_size"); }

size_t default_receive_depth() { return depth("rx_size"); }

}  // namespace urma_fi
