/* SPDX-License-Identifier: MIT */

// What every example does with its device: open it, wait for completions, close it.

#ifndef EXAMPLES_DEVICE_H
#define EXAMPLES_DEVICE_H

#include "urma_api.h"

#ifdef __cplusplus
extern "C" {
#endif

// Exits with a message that names `what`, unless `status` is URMA_SUCCESS.
void ok(urma_status_t status, const char* what);

// The device that the environment variable URMA_DEVICE names, else the first one found. Exits if
// there is none.
urma_device_t* choose_device(void);

// Starts the library and opens choose_device(). Prints its name. Exits on failure.
urma_context_t* open_device(void);

// Exits with a message that names `what`, unless the request has succeeded. Returns the number of
// bytes it moved.
uint32_t succeeded(const urma_cr_t* record, const char* what);

// Polls `jfc` until something completes. Returns the number of records, at most `count`.
int poll_some(urma_jfc_t* jfc, urma_cr_t* records, int count);

// Polls `jfc` until a request completes, and returns the number of bytes it moved. Exits if the
// request failed.
uint32_t wait_for(urma_jfc_t* jfc);

// Closes the device, whose objects must all be gone, and ends the library.
void close_device(urma_context_t* ctx);

#ifdef __cplusplus
}
#endif

#endif  // EXAMPLES_DEVICE_H
