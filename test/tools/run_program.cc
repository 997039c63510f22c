// SPDX-License-Identifier: MIT
//
// What run_test has urma_run run, and what it runs urma_run in:
//   look                      prints what several ways to look for urma_shm0 find
//   confine PROGRAM ARGUMENT  executes a program without capabilities and without namespaces

#include <dirent.h>
#include <glob.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>

namespace {

namespace fs = std::filesystem;

constexpr char kDevice[] = "/sys/class/ubcore/urma_shm0";

std::string read(const fs::path& path) {
  std::string text;
  std::ifstream(path) >> text;
  return text;
}

int is_ubcore(const dirent* entry) { return std::strcmp(entry->d_name, "ubcore") == 0; }

int look() {
  for (const auto& entry : fs::directory_iterator("/sys/class")) {
    if (entry.path().filename() == "ubcore") std::cout << "listed" << std::endl;
  }
  dirent** list = nullptr;
  std::cout << "scandir " << ::scandir("/sys/class", &list, is_ubcore, alphasort) << std::endl;
  glob_t found = {};
  ::glob("/sys/class/ub*/urma_shm0/port*/state", 0, nullptr, &found);
  std::cout << "glob " << (found.gl_pathc == 1 ? found.gl_pathv[0] : "") << std::endl;
  char* real = ::realpath("/sys//class/./ubcore/../ubcore/urma_shm0", nullptr);
  // The folder of a device may be a link, as the kernel's are.
  const fs::path place(real == nullptr ? "" : real);
  std::cout << "realpath " << (place.parent_path().filename() / place.filename()).string()
            << std::endl;
  std::cout << "ifstream " << read(std::string(kDevice) + "/ubdev") << std::endl;
  FILE* file = std::fopen("/sys/class/ubcore/urma_shm0/none", "r");
  std::cout << "missing " << (file == nullptr && errno == ENOENT) << std::endl;
  std::cout << "exists " << fs::exists("/dev/uburma/urma_shm0") << std::endl;
  fs::current_path("/sys/class");
  std::cout << "relative " << read("ubcore/urma_shm0/ubdev") << std::endl;
  return 0;
}

// Like the filter of a container: no namespaces, no mounts.
bool refuse_namespaces() {
  const sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_unshare, 1, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mount, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program = {std::size(code), const_cast<sock_filter*>(code)};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

int confine(char** words) {
  for (int i = 0; i <= CAP_LAST_CAP; ++i) ::prctl(PR_CAPBSET_DROP, i, 0, 0, 0);
  __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  const __user_cap_data_struct none[2] = {};
  if (::syscall(SYS_capset, &header, none) != 0 || !refuse_namespaces()) return 77;
  ::execv(words[0], words);
  return 78;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "look") return look();
  if (what == "confine" && argc > 2) return confine(argv + 2);
  return 1;
}
