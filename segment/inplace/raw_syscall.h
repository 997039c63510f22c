// SPDX-License-Identifier: MIT
//
// System calls without the C library's work around them. While pages of the program are frozen, any
// thread that touches one sleeps until they are thawed: the thread that has to thaw them must not
// read errno's neighbours, bind a symbol late or enter a cancellation point meanwhile.
#ifndef SEGMENT_INPLACE_RAW_SYSCALL_H_
#define SEGMENT_INPLACE_RAW_SYSCALL_H_

#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <type_traits>

namespace urma {

// Returns the kernel's result, or -errno.
inline long raw_syscall6(long number, long a, long b, long c, long d, long e, long f) {
#if defined(__x86_64__)
  long result;
  register long r10 asm("r10") = d;
  register long r8 asm("r8") = e;
  register long r9 asm("r9") = f;
  asm volatile("syscall"
               : "=a"(result)
               : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
               : "rcx", "r11", "memory");
  return result;
#elif defined(__aarch64__)
  register long x8 asm("x8") = number;
  register long x0 asm("x0") = a;
  register long x1 asm("x1") = b;
  register long x2 asm("x2") = c;
  register long x3 asm("x3") = d;
  register long x4 asm("x4") = e;
  register long x5 asm("x5") = f;
  asm volatile("svc 0"
               : "+r"(x0)
               : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
               : "memory");
  return x0;
#else
  const long result = ::syscall(number, a, b, c, d, e, f);
  return result == -1 ? -errno : result;
#endif
}

template <typename T>
long syscall_argument(T value) {
  if constexpr (std::is_pointer_v<T>) {
    return reinterpret_cast<long>(value);
  } else {
    return static_cast<long>(value);
  }
}

template <typename... Args>
long raw_syscall(long number, Args... args) {
  static_assert(sizeof...(args) <= 6);
  const long a[6] = {syscall_argument(args)...};
  return raw_syscall6(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

}  // namespace urma

#endif  // SEGMENT_INPLACE_RAW_SYSCALL_H_
