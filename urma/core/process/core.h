// SPDX-License-Identifier: MIT
#ifndef URMA_CORE_PROCESS_CORE_H_
#define URMA_CORE_PROCESS_CORE_H_

#include "segment/inplace/page_table.h"
#include "urma/core/process/devices.h"
#include "urma/core/process/loader.h"
#include "urma_types.h"

namespace urma::core {

// What urma_init and urma_uninit do. Like uasid(), they throw Error in a child that was forked
// while its parent used the library.
urma_status_t init(urma_init_attr_t* conf);
urma_status_t uninit();

// The number of this process, or one that a provider gives. Throws Error if there is neither.
uint32_t uasid();

DeviceTable& device_table();
Loader& loader();

// The attributes of a device of this process; NULL if it has no such device. Valid until
// urma_uninit.
const urma_device_attr_t* attr_of(const urma_device_t* device);

// The runtime of the process, made by the first caller. Throws Error if it cannot be made.
Runtime* runtime();

// The pages that peers map. Exists once the library is loaded.
PageTable& shared_pages();

// True between urma_init and urma_uninit.
bool in_use();
// The error text of calls that need it.
const char* not_started_text();

}  // namespace urma::core

#endif  // URMA_CORE_PROCESS_CORE_H_
