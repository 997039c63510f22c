// Lets User Mode Linux run on processors whose extended state is larger than 2696 bytes.
//
// Linux 6.12 in user mode knows only that many bytes of the registers of its processes. A host
// gives out a part of the state, but takes only the whole: with AMX, 11008 bytes. So what is
// set is completed here by what the host has in the rest. To be loaded by LD_PRELOAD.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/uio.h>

typedef long ptrace_function(enum __ptrace_request request, ...);

long ptrace(enum __ptrace_request request, ...) {
  static ptrace_function* real;
  static char state[1 << 16];
  if (real == NULL) real = (ptrace_function*)dlsym(RTLD_NEXT, "ptrace");

  va_list arguments;
  va_start(arguments, request);
  const pid_t pid = va_arg(arguments, pid_t);
  void* const address = va_arg(arguments, void*);
  void* const data = va_arg(arguments, void*);
  va_end(arguments);

  if (request == PTRACE_SETREGSET && address == (void*)NT_X86_XSTATE) {
    const struct iovec* const part = data;
    struct iovec whole = {.iov_base = state, .iov_len = sizeof(state)};
    if (real(PTRACE_GETREGSET, pid, address, &whole) != 0) return -1;
    if (part->iov_len < whole.iov_len) {
      memcpy(state, part->iov_base, part->iov_len);
      return real(request, pid, address, &whole);
    }
  }
  return real(request, pid, address, data);
}
