// SPDX-License-Identifier: MIT
//
// The headers of the HSA runtime. They detect the byte order on x86 only; elsewhere it must
// be defined.
#ifndef URMA_PROVIDERS_ROCM_HSA_H_
#define URMA_PROVIDERS_ROCM_HSA_H_

#include <bit>

static_assert(std::endian::native == std::endian::little);
#ifndef LITTLEENDIAN_CPU
#define LITTLEENDIAN_CPU
#endif

#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>

#endif  // URMA_PROVIDERS_ROCM_HSA_H_
