/* SPDX-License-Identifier: MIT */

// Which message goes to which receive.

#ifndef OFI_RDM_MATCH_H
#define OFI_RDM_MATCH_H

#include <rdma/fabric.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ofi/rdm_list.h"
#include "urma_types.h"

namespace urma_fi {

struct Peer;

constexpr size_t kRdmPieces = 4;  // of an iovec

// Memory of the program.
struct Pieces {
  iovec pieces[kRdmPieces];
  size_t count;
  size_t bytes;

  // False: too many pieces.
  bool set(std::span<const iovec> given);
  // Copies up to `size` bytes. Returns how many there was room for.
  size_t scatter(const char* from, size_t size) const;
};

// Copies all pieces, one behind the other.
void gather(std::span<const iovec> pieces, char* to);

// Memory of a large message, registered while it moves.
struct Registered {
  urma_sge_t sges[kRdmPieces];
  uint32_t count = 0;
};

// What a message says of itself.
struct Envelope {
  Peer* sender;
  uint64_t tag;
  uint64_t data;    // for the completion
  uint64_t flags;   // FI_MSG or FI_TAGGED, and FI_REMOTE_CQ_DATA
  uint64_t length;  // of the whole message
  bool announced;   // it waits at its sender
  uint64_t id;      // the sender's name for it then
};

struct Receive {
  Receive* next;
  Receive* previous;
  uint32_t index;
  void* context;
  uint64_t kind;  // FI_MSG or FI_TAGGED
  bool report;    // success too
  bool looks;     // takes nothing: no counter counts it
  uint64_t tag;
  uint64_t ignore;
  Peer* from;  // NULL: any
  Pieces memory;
  Envelope message;  // once it is matched
  Registered registered;
  uint64_t accepted;
  uint64_t number;  // goes beside its data

  bool takes(const Envelope& other) const {
    return ((tag ^ other.tag) & ~ignore) == 0 && (from == nullptr || from == other.sender);
  }
};

// A message without a receive.
struct Unexpected {
  Unexpected* next;
  Unexpected* previous;
  uint32_t index;
  Envelope message;
  std::vector<char> bytes;  // unless it is announced
};

// Messages with and without tags have nothing to do with each other.
class Matcher {
 public:
  Pool<Receive> receives;
  Pool<Unexpected> messages;

  void post(Receive* receive) { list_of(receive->kind).posted.push_back(receive); }

  // The first receive that takes the message, no longer posted; NULL: none.
  Receive* match(const Envelope& message) {
    List<Receive>& posted = list_of(message.flags).posted;
    for (Receive* receive = posted.front(); receive != nullptr; receive = receive->next) {
      if (!receive->takes(message)) continue;
      posted.remove(receive);
      return receive;
    }
    return nullptr;
  }

  void keep(Unexpected* message) { list_of(message->message.flags).unexpected.push_back(message); }

  // The first kept message that the receive takes; NULL: none.
  Unexpected* find(const Receive& receive) {
    Unexpected* message = list_of(receive.kind).unexpected.front();
    while (message != nullptr && !receive.takes(message->message)) message = message->next;
    return message;
  }
  void drop(Unexpected* message) { list_of(message->message.flags).unexpected.remove(message); }

  // Takes out the first message that waits at this sender; NULL: none.
  Unexpected* withdraw_announced(const Peer* sender) {
    for (Lists& lists : lists_) {
      for (Unexpected* message = lists.unexpected.front(); message != nullptr;
           message = message->next) {
        if (!message->message.announced || message->message.sender != sender) continue;
        lists.unexpected.remove(message);
        return message;
      }
    }
    return nullptr;
  }

  // Takes out the first receive that `which` is true for; NULL: none.
  template <typename Which>
  Receive* withdraw(const Which& which) {
    for (Lists& lists : lists_) {
      for (Receive* receive = lists.posted.front(); receive != nullptr; receive = receive->next) {
        if (!which(*receive)) continue;
        lists.posted.remove(receive);
        return receive;
      }
    }
    return nullptr;
  }

 private:
  struct Lists {
    List<Receive> posted;
    List<Unexpected> unexpected;
  };

  Lists& list_of(uint64_t flags) { return lists_[(flags & FI_TAGGED) != 0]; }

  Lists lists_[2];
};

}  // namespace urma_fi

#endif  // OFI_RDM_MATCH_H
