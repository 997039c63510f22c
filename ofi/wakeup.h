/* SPDX-License-Identifier: MIT */

// The descriptor that the sleepers of a completion queue wait for.

#ifndef OFI_WAKEUP_H
#define OFI_WAKEUP_H

namespace urma_fi {

// Readable if the device has an event, if another thread has found what a sleeper waits for, and if
// a sleeper has to look after its peers. The lock of the domain guards all but make() and fd().
class Wakeup {
 public:
  Wakeup() = default;
  Wakeup(const Wakeup&) = delete;
  Wakeup& operator=(const Wakeup&) = delete;
  ~Wakeup();

  // `events` is the descriptor of the device. Returns 0 or a negative code.
  int make(int events);
  int fd() const { return all_; }

  // Somebody is about to sleep, and nothing is there that would keep him awake. `timed`: for a
  // short time only.
  void prepare(bool timed);
  // Wakes all who sleep, and keeps others awake until the next call of prepare().
  void wake() {
    if (awaited_) raise();
  }

 private:
  void raise();

  int all_ = -1;    // the other two, and the device
  int found_ = -1;  // an eventfd
  int timer_ = -1;
  bool awaited_ = false;  // somebody may sleep, and has not been woken
  bool timed_ = false;
};

}  // namespace urma_fi

#endif  // OFI_WAKEUP_H
