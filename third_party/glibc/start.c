// SPDX-License-Identifier: MIT
//
// The start of a program where glibc is older than 2.34: there the program itself runs what has to
// run before main(). Newer ones do so if they are not told how, and do as they are told otherwise.

#include <stddef.h>

typedef int (*Main)(int, char**, char**);
typedef void (*Before)(int, char**, char**);

extern const Before __init_array_start[] __attribute__((visibility("hidden")));
extern const Before __init_array_end[] __attribute__((visibility("hidden")));
void _init(void);

static void before_main(int count, char** arguments, char** environment) {
  _init();
  for (const Before* each = __init_array_start; each < __init_array_end; ++each) {
    (*each)(count, arguments, environment);
  }
}

int __real___libc_start_main(Main, int, char**, Before, void (*)(void), void (*)(void), void*);

// The linker puts it in the place of __libc_start_main.
__attribute__((visibility("hidden"))) int __wrap___libc_start_main(Main main, int count,
                                                                   char** arguments, Before before,
                                                                   void (*after)(void),
                                                                   void (*loader_end)(void),
                                                                   void* stack_end) {
  (void)before;
  return __real___libc_start_main(main, count, arguments, before_main, after, loader_end,
                                  stack_end);
}
