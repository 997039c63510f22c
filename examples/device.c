/* SPDX-License-Identifier: MIT */

#include "device.h"

#include <stdio.h>
#include <stdlib.h>

#include "exchange.h"
#include "urma_types_str.h"

void ok(urma_status_t status, const char* what) {
  if (status == URMA_SUCCESS) return;
  fprintf(stderr, "%s failed (%s)\n", what, urma_status_to_string(status));
  exit(EXIT_FAILURE);
}

static urma_device_t* first_device(void) {
  int count = 0;
  urma_device_t** list = urma_get_device_list(&count);
  urma_device_t* first = count > 0 ? list[0] : NULL;
  urma_free_device_list(list);  // frees the list only: devices live until urma_uninit
  return first;
}

urma_device_t* choose_device(void) {
  char* name = getenv("URMA_DEVICE");
  urma_device_t* device = name != NULL ? urma_get_device_by_name(name) : first_device();
  if (device == NULL && name != NULL) {
    fprintf(stderr, "URMA_DEVICE=%s: no such device; urma_admin show lists them\n", name);
    exit(EXIT_FAILURE);
  }
  require(device != NULL, "finding a device");
  return device;
}

urma_context_t* open_device(void) {
  ok(urma_init(NULL), "urma_init");
  urma_device_t* device = choose_device();

  // Entry 0 of the EID table of the device is as good an address as any.
  urma_context_t* ctx = urma_create_context(device, 0);
  require(ctx != NULL, "urma_create_context");
  printf("device %s, EID " EID_FMT "\n", device->name, EID_ARGS(ctx->eid));
  return ctx;
}

int poll_some(urma_jfc_t* jfc, urma_cr_t* records, int count) {
  int n;
  for (uint64_t polls = 0; (n = urma_poll_jfc(jfc, count, records)) == 0; polls++) idle(polls);
  require(n > 0, "urma_poll_jfc");
  return n;
}

uint32_t succeeded(const urma_cr_t* record, const char* what) {
  if (record->status == URMA_CR_SUCCESS) return record->completion_len;
  fprintf(stderr, "%s failed (%s)\n", what, urma_cr_status_to_string(record->status));
  exit(EXIT_FAILURE);
}

uint32_t wait_for(urma_jfc_t* jfc) {
  urma_cr_t cr;
  poll_some(jfc, &cr, 1);
  return succeeded(&cr, "a request");
}

void close_device(urma_context_t* ctx) {
  ok(urma_delete_context(ctx), "urma_delete_context");
  ok(urma_uninit(), "urma_uninit");
}
