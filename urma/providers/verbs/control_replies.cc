// SPDX-License-Identifier: MIT
#include "urma/providers/verbs/control_replies.h"

#include <algorithm>
#include <iterator>

namespace urma::verbs {
namespace {

constexpr uint64_t kSweepNs = 1'000'000'000;

}  // namespace

ReplyCache::Verdict ReplyCache::admit(const NetAddress& from, const Header& header, uint64_t now_ns,
                                      const DatagramBytes** reply, uint64_t* replaced) {
  Verdict verdict = Verdict::kExecute;
  Peer* peer = find(from, header, now_ns, &verdict, replaced);
  if (peer == nullptr) return verdict;
  peer->heard_ns = now_ns;
  peer->ticket = std::max(peer->ticket, header.ticket.number);
  // A late datagram must not execute what the asker has given up: its effects may have been undone
  // already.
  if (header.transaction < peer->oldest) return Verdict::kIgnore;
  drop_replies(from, peer, header.oldest);
  const auto known = peer->replies.find(header.transaction);
  if (known != peer->replies.end()) {
    if (!known->second.has_value()) return Verdict::kIgnore;
    *reply = &*known->second;
    return Verdict::kRepeat;
  }
  Use& use = hosts_[from.host()];
  if (peer->replies.size() >= kRequestWindow || use.replies >= kMaxReplies / 4 ||
      replies_ >= kMaxReplies) {
    return Verdict::kFull;
  }
  peer->replies.emplace(header.transaction, std::nullopt);
  ++use.replies;
  ++replies_;
  return Verdict::kExecute;
}

void ReplyCache::keep(const NetAddress& to, uint64_t nonce, uint64_t transaction,
                      const DatagramBytes& reply) {
  const auto peer = peers_.find(to);
  if (peer == peers_.end() || peer->second.nonce != nonce) return;
  const auto known = peer->second.replies.find(transaction);
  if (known != peer->second.replies.end()) known->second = reply;
}

ReplyCache::Peer* ReplyCache::find(const NetAddress& from, const Header& header, uint64_t now_ns,
                                   Verdict* verdict, uint64_t* replaced) {
  *replaced = 0;
  auto found = peers_.find(from);
  if (found != peers_.end() && found->second.nonce != header.sender) {
    // The later ticket wins; the other datagram was delayed for long.
    if (header.ticket.number <= found->second.ticket) {
      *verdict = Verdict::kIgnore;
      return nullptr;
    }
    *replaced = found->second.nonce;
    // Its tickets need not expire: they are all older than the first one of the new incarnation.
    forget(found);
    found = peers_.end();
  }
  if (found != peers_.end()) return &found->second;
  if (now_ns - swept_ns_ >= kSweepNs) {
    swept_ns_ = now_ns;
    forget_silent(now_ns);
  }
  const auto host = hosts_.find(from.host());
  const bool host_full = host != hosts_.end() && host->second.peers >= kMaxPeers / 4;
  if (host_full || peers_.size() >= kMaxPeers) {
    *verdict = Verdict::kFull;
    return nullptr;
  }
  ++hosts_[from.host()].peers;
  const Peer fresh = {header.sender, header.ticket.number, header.oldest, now_ns, {}};
  return &peers_.emplace(from, fresh).first->second;
}

ReplyCache::Peers::iterator ReplyCache::forget(Peers::iterator peer) {
  drop_replies(peer->first, &peer->second, ~0ULL);
  const auto host = hosts_.find(peer->first.host());
  if (--host->second.peers == 0) hosts_.erase(host);
  return peers_.erase(peer);
}

void ReplyCache::forget_silent(uint64_t now_ns) {
  for (auto peer = peers_.begin(); peer != peers_.end();) {
    if (now_ns - peer->second.heard_ns < kForgetNs) {
      ++peer;
      continue;
    }
    // Otherwise a datagram that is very late could be taken for a new request.
    tickets_->expire(peer->second.ticket);
    peer = forget(peer);
  }
}

void ReplyCache::drop_replies(const NetAddress& from, Peer* peer, uint64_t before) {
  peer->oldest = std::max(peer->oldest, before);
  const auto end = peer->replies.lower_bound(peer->oldest);
  const auto count = static_cast<size_t>(std::distance(peer->replies.begin(), end));
  peer->replies.erase(peer->replies.begin(), end);
  hosts_[from.host()].replies -= count;
  replies_ -= count;
}

}  // namespace urma::verbs
