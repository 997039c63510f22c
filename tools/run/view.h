// SPDX-License-Identifier: MIT
//
// The program's view: two folders, ubcore and uburma.
#ifndef TOOLS_RUN_VIEW_H_
#define TOOLS_RUN_VIEW_H_

#include <string>

namespace run {

// Lies in the folder `class` of the runtime directory, which the library cleans up. The library
// must be started, and must outlive it.
class View {
 public:
  View();  // throws Failure
  View(const View&) = delete;
  View& operator=(const View&) = delete;
  ~View();

  const std::string& path() const { return path_; }

 private:
  void fill();
  void add_named(const std::string& name);

  std::string live_;  // the files that the library has written
  std::string path_;
};

}  // namespace run

#endif  // TOOLS_RUN_VIEW_H_
