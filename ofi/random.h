/* SPDX-License-Identifier: MIT */

#ifndef OFI_RANDOM_H
#define OFI_RANDOM_H

#include <cstdint>

namespace urma_fi {

// For tokens, and for numbers that peers shall not guess or mistake for those of another process.
uint64_t random_number();

}  // namespace urma_fi

#endif  // OFI_RANDOM_H
