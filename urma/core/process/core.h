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

// The number of this process, or one that a provider gives. Throws Error where there is neither.
uint32_t uasid();

DeviceTable& device_table();
Loader& loader();

// The attributes of a device of this process; NULL where it has no such device. They stay where
// they are until urma_uninit.
const urma_device_attr_t* attr_of(const urma_device_t* device);

// The runtime of the process, made by the first who asks. Throws Error where it cannot be made.
Runtime* runtime();

// The pages that peers map. Stands from the loading of the library on.
PageTable& shared_pages();

// True between urma_init and urma_uninit.
bool in_use();
// What a call is told that needs it.
const char* not_started_text();

}  // namespace urma::core

#endif  // URMA_CORE_PROCESS_CORE_H_
