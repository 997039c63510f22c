#!/bin/bash
# SPDX-License-Identifier: MIT
#
# new_provider.sh NAME: adds a provider to the tree, in which it is run: a module with one device
# that has no operation yet, and the conformance suite over that device. ./dev new-provider does.
set -euo pipefail

[[ $# -eq 1 && "$1" =~ ^[a-z][a-z0-9]{0,23}$ ]] || {
  echo "usage: ./dev new-provider NAME, of at most 24 small letters and digits, a letter first" >&2
  exit 2
}
readonly name="$1" folder="urma/providers/$1" tests="test/$1"
for place in "${folder}" "${tests}"; do
  [[ ! -e "${place}" ]] || { echo "${place} is there already; choose another name" >&2; exit 1; }
done

# Prints stdin with the name of the provider in place of NAME.
filled() { sed -e "s/NAME_H/${name^^}/g" -e "s/NAME/${name}/g"; }

mkdir -p "${folder}" "${tests}"
filled >"${folder}/BUILD.bazel" <<'END'
load("//urma:link_time.bzl", "LINK_TIME_COPTS")

package(default_visibility = ["//urma:product_users"])

# Tests look for every message in them, and at what the rooms use.
filegroup(
    name = "sources",
    srcs = ["BUILD.bazel"] + glob([
        "*.cc",
        "*.h",
    ]),
    visibility = ["//test:__subpackages__"],
)

cc_library(
    name = "NAME",
    srcs = glob(["*.cc"]),
    hdrs = glob(
        ["*.h"],
        allow_empty = True,
    ),
    copts = LINK_TIME_COPTS,
    linkstatic = True,
    alwayslink = True,
    deps = [
        "//jetty",
        "//segment",
        "//urma/base",
        "//urma/include",
    ],
)
END

filled >"${folder}/module.cc" <<'END'
// SPDX-License-Identifier: MIT
//
// The NAME provider as a module: its registration, its device, and its contexts.
#include <span>

#include "urma/base/provider_module.h"

namespace urma::NAME {
namespace {

constexpr char kDeviceName[] = "urma_NAME0";

// What the device tells of itself. The limits are what programs may ask for.
urma_device_attr_t describe_device(size_t eids) {
  urma_device_attr_t attr = {};
  attr.dev_cap.max_eid_cnt = static_cast<uint32_t>(eids);
  return attr;
}

// What contexts can do. An operation that is not there is answered by the library, as the contract
// says of an absent one; jetty/ops.h fills in most of them for a class derived from
// jetty/transport.h, as urma/providers/shm/module.cc has it.
urma_ops_t context_ops;

class Provider {
 public:
  static constexpr char kName[] = "NAME";

  explicit Provider(urma_provider_ops_t* ops) {
    context_ops = {};
    context_ops.name = kName;
    const DeviceDescription device = {kDeviceName, URMA_TRANSPORT_UB,
                                      attr_,       eids_.data(),
                                      eid_count(), nullptr};
    host()->registry->add_device(ops, device);
  }

  bool has_devices() const { return true; }
  const urma_device_attr_t& attr_of(const urma_device_t& /*dev*/) const { return attr_; }
  size_t eids_of(const urma_device_t& /*dev*/) const { return eids_.size(); }
  urma_context_t* open_context(urma_device_t* /*dev*/, uint32_t /*eid_index*/) {
    auto* context = new urma_context_t{};
    context->ops = &context_ops;
    return context;
  }
  static void close_context(Provider* /*provider*/, urma_context_t* ctx) { delete ctx; }

 private:
  uint32_t eid_count() const { return static_cast<uint32_t>(eids_.size()); }

  const std::span<const urma_eid_t> eids_ = host()->runtime()->eids();
  const urma_device_attr_t attr_ = describe_device(eids_.size());
};

}  // namespace
}  // namespace urma::NAME

extern "C" __attribute__((visibility("default"))) int urma_module_entry(uint32_t version,
                                                                        const urma_host* host) {
  return urma::Module<urma::NAME::Provider>::enter(version, host);
}
END

filled >"${tests}/BUILD.bazel" <<'END'
# SPDX-License-Identifier: MIT
#
# The NAME provider: the suite of all providers over its device. What the device lacks is skipped.

package(default_visibility = ["//test:__subpackages__"])

cc_test(
    name = "lines_test",
    size = "small",
    args = ["--gtest_filter=DeviceLines.*"],
    data = ["//:lib/urma/liburma-NAME.so"],
    env = {"URMA_DEVICE": "urma_NAME0"},
    deps = [
        "//test/conformance:lines_cases",
        "@system//:gtest_main",
    ],
)
END

filled >>BUILD.bazel <<'END'

cc_binary(
    name = "lib/urma/liburma-NAME.so",
    additional_linker_inputs = ["//urma/providers:module.map"],
    linkopts = [
        "-Wl,-soname,liburma-NAME.so",
        "-Wl,--version-script=$(location //urma/providers:module.map)",
    ] + NO_OPEN_SYMBOLS + LINK_TIME_LINKOPTS,
    linkshared = True,
    visibility = ["//test:__subpackages__"],
    deps = ["//urma/providers/NAME"],
)
END

cat <<END
made ${folder} and ${tests}, and lib/urma/liburma-${name}.so in BUILD.bazel. Next:
  ./dev test ${tests}        the suite: everything is skipped
  ${folder}/module.cc        give the contexts operations; with create_jfc the suite begins to run
  test/install/BUILD.bazel   add //${folder}:sources to library_sources; then the tests there ask
                             for messages in docs/errors.md and a line in docs/architecture.md
  docs/conformance.md        what programs may count on
  CONTRIBUTING.md            "A new provider": which classes, in which order, and which tests
END
