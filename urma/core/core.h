// SPDX-License-Identifier: MIT
#ifndef URMA_CORE_CORE_H_
#define URMA_CORE_CORE_H_

#include "segment/page_table.h"
#include "urma/core/devices.h"
#include "urma/core/loader.h"

namespace urma::core {

DeviceTable& device_table();
Loader& loader();

// The runtime of the process, made by the first who asks. Throws Error where it cannot be made.
Runtime* runtime();

// The pages that peers map. Stands from the loading of the library on.
PageTable& shared_pages();

// True between urma_init and urma_uninit.
bool in_use();
// What a call is told that needs it.
const char* not_started_text();

}  // namespace urma::core

#endif  // URMA_CORE_CORE_H_
