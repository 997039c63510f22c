// SPDX-License-Identifier: MIT
#include "segment/inplace/way_back.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "segment/inplace/page_table.h"

namespace urma {

WayBack::WayBack()
    : fault_(UFFD_FEATURE_EVENT_REMAP | kernel::kFeatureMove),
      stop_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      status_(::open("/proc/self/status", O_RDONLY | O_CLOEXEC)) {}

bool WayBack::pages_are_pinned() const {
  char text[4096] = {};
  if (::pread(status_.get(), text, sizeof text - 1, 0) <= 0) return true;
  const char* const line = std::strstr(text, "\nVmPin:");
  return line == nullptr || std::strtoull(line + 7, nullptr, 10) != 0;
}

std::unique_ptr<WayBack> WayBack::make() {
  std::unique_ptr<WayBack> way(new WayBack);
  if (way->fault_.error() != 0) {
    errno = way->fault_.error();
    way.reset();
  } else if (!way->stop_.valid() || !way->status_.valid()) {
    way.reset();
  }
  return way;
}

bool PageTable::secure_way_back() {
  child_copies_.prepare();
  if (way_back_ != nullptr || ways_lent_ != 0) return true;
  way_back_ = make_way_back();
  return way_back_ != nullptr;
}

std::unique_ptr<WayBack> PageTable::make_way_back() {
  if (!knows_pages()) {
    errno = ENOTSUP;
    return nullptr;
  }
  auto way = WayBack::make();
  if (way != nullptr) passing_fds_.insert({way->uffd(), way->stop_fd(), way->status_fd()});
  return way;
}

std::unique_ptr<WayBack> PageTable::borrow_way_back() {
  auto way = way_back_ != nullptr ? std::move(way_back_) : make_way_back();
  if (way != nullptr) {
    ++ways_lent_;
  } else if (ways_lent_ != 0) {
    errno = EAGAIN;
  }
  return way;
}

void PageTable::return_way_back(std::unique_ptr<WayBack> way) {
  --ways_lent_;
  std::swap(way, way_back_);
  if (way != nullptr) close_way_back(std::move(way));
  settle();
}

void PageTable::settle() {
  if (!extents_.map().empty() || !going_.empty()) return;
  if (way_back_ != nullptr) close_way_back(std::move(way_back_));
  child_copies_.drop();
}

void PageTable::close_way_back(std::unique_ptr<WayBack> way) {
  passing_fds_.erase(way->uffd());
  passing_fds_.erase(way->stop_fd());
  passing_fds_.erase(way->status_fd());
}

}  // namespace urma
