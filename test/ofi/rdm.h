/* SPDX-License-Identifier: MIT */

// Endpoints of the libfabric provider for datagrams, made without the registry of libfabric.

#ifndef TEST_OFI_RDM_H_
#define TEST_OFI_RDM_H_

#include <rdma/fi_tagged.h>

#include <deque>
#include <initializer_list>
#include <vector>

#include "test/ofi/pair.h"

namespace urma_test {

inline constexpr uint64_t kRdmCaps =
    FI_MSG | FI_TAGGED | FI_DIRECTED_RECV | FI_SOURCE | FI_LOCAL_COMM | FI_REMOTE_COMM;

// A completion or a failure.
struct Outcome {
  fi_cq_err_entry entry{};
  fi_addr_t source = FI_ADDR_NOTAVAIL;
};

// An endpoint in a domain of its own, with its queue and its addresses.
class Node {
 public:
  explicit Node(uint64_t cq_flags = 0, fi_wait_obj wait = FI_WAIT_NONE,
                uint32_t format = FI_SOCKADDR_IN6, const sockaddr_in6* name = nullptr) {
    fi_info* hints = fi_dupinfo(nullptr);
    hints->ep_attr->type = FI_EP_RDM;
    hints->caps = kRdmCaps;
    hints->mode = FI_CONTEXT;
    hints->addr_format = format;
    hints->domain_attr->name = strdup("urma_shm0");
    if (name != nullptr) {
      hints->src_addr = std::malloc(sizeof(*name));
      hints->src_addrlen = sizeof(*name);
      std::memcpy(hints->src_addr, name, sizeof(*name));
    }
    fi_provider* provider = fi_prov_ini();
    EXPECT_EQ(provider->getinfo(kVersion, nullptr, nullptr, 0, hints, &info), 0);
    fi_freeinfo(hints);
    EXPECT_EQ(provider->fabric(info->fabric_attr, &fabric, nullptr), 0);
    EXPECT_EQ(fi_domain(fabric, info, &domain, nullptr), 0);
    fi_cq_attr cq_attr{};
    cq_attr.format = FI_CQ_FORMAT_TAGGED;
    cq_attr.wait_obj = wait;
    EXPECT_EQ(fi_cq_open(domain, &cq_attr, &cq, nullptr), 0);
    fi_av_attr av_attr{};
    EXPECT_EQ(fi_av_open(domain, &av_attr, &av, nullptr), 0);
    EXPECT_EQ(fi_endpoint(domain, info, &ep, nullptr), 0);
    EXPECT_EQ(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV | cq_flags), 0);
    EXPECT_EQ(fi_ep_bind(ep, &av->fid, 0), 0);
  }

  ~Node() {
    close();
    for (fid_t fid : {&av->fid, &cq->fid, &domain->fid, &fabric->fid}) EXPECT_EQ(fi_close(fid), 0);
    fi_freeinfo(info);
  }

  void enable() { EXPECT_EQ(fi_enable(ep), 0); }

  void close() {
    if (ep != nullptr) {
      EXPECT_EQ(fi_close(&ep->fid), 0);
    }
    ep = nullptr;
  }

  sockaddr_in6 name() const {
    sockaddr_in6 name{};
    size_t size = sizeof(name);
    EXPECT_EQ(fi_getname(&ep->fid, &name, &size), 0);
    return name;
  }

  fi_addr_t insert(const sockaddr_in6& name) {
    fi_addr_t number = FI_ADDR_NOTAVAIL;
    EXPECT_EQ(fi_av_insert(av, &name, 1, &number, 0, nullptr), 1);
    return number;
  }

  // Moves what its queue has to `done`.
  void poll() {
    fi_cq_tagged_entry entry{};
    Outcome outcome;
    const ssize_t taken = fi_cq_readfrom(cq, &entry, 1, &outcome.source);
    if (taken == -FI_EAVAIL) {
      EXPECT_EQ(fi_cq_readerr(cq, &outcome.entry, 0), 1);
    } else if (taken == 1) {
      std::memcpy(&outcome.entry, &entry, sizeof(entry));
    } else {
      EXPECT_EQ(taken, -FI_EAGAIN);
      return;
    }
    done.push_back(outcome);
  }

  fi_info* info = nullptr;
  fid_fabric* fabric = nullptr;
  fid_domain* domain = nullptr;
  fid_cq* cq = nullptr;
  fid_av* av = nullptr;
  fid_ep* ep = nullptr;
  std::deque<Outcome> done;
};

// The next outcome at the first node, while all of them make progress.
inline Outcome next(std::initializer_list<Node*> nodes) {
  Node& first = **nodes.begin();
  EXPECT_TRUE(until([&] {
    for (Node* node : nodes) node->poll();
    return !first.done.empty();
  }));
  if (first.done.empty()) return {};
  const Outcome outcome = first.done.front();
  first.done.pop_front();
  return outcome;
}

inline std::vector<char> pattern(size_t size, int seed) {
  std::vector<char> bytes(size);
  for (size_t i = 0; i < size; i++) bytes[i] = static_cast<char>(i * 7 + i / 251 + size + seed);
  return bytes;
}

}  // namespace urma_test

#endif  // TEST_OFI_RDM_H_
