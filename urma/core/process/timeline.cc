// SPDX-License-Identifier: MIT
#include "urma/core/process/timeline.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <utility>

#include "urma/base/error.h"

namespace urma::core::trace {
namespace {

// Limit: the requests of a queue without completions would be kept without end.
constexpr size_t kMaxOutstanding = 1 << 17;

constexpr std::pair<uint8_t, std::string_view> kOpcodes[] = {
    {URMA_OPC_WRITE, "WRITE"},
    {URMA_OPC_WRITE_IMM, "WRITE_IMM"},
    {URMA_OPC_WRITE_NOTIFY, "WRITE_NOTIFY"},
    {URMA_OPC_READ, "READ"},
    {URMA_OPC_CAS, "CAS"},
    {URMA_OPC_SWAP, "SWAP"},
    {URMA_OPC_FADD, "FADD"},
    {URMA_OPC_FSUB, "FSUB"},
    {URMA_OPC_FAND, "FAND"},
    {URMA_OPC_FOR, "FOR"},
    {URMA_OPC_FXOR, "FXOR"},
    {URMA_OPC_SEND, "SEND"},
    {URMA_OPC_SEND_IMM, "SEND_IMM"},
    {URMA_OPC_SEND_INVALIDATE, "SEND_INVALIDATE"},
    {URMA_OPC_NOP, "NOP"},
    {URMA_OPC_WRITE_ATOMIC, "WRITE_ATOMIC"},
    {URMA_OPC_FLUSH_DMA, "FLUSH_DMA"},
};

std::string_view opcode_name(uint8_t opcode) {
  for (const auto& [value, name] : kOpcodes) {
    if (value == opcode) return name;
  }
  return "request";
}

std::string_view received_name(uint8_t opcode) {
  switch (opcode) {
    case URMA_CR_OPC_SEND:
      return "received SEND";
    case URMA_CR_OPC_SEND_WITH_IMM:
      return "received SEND_IMM";
    case URMA_CR_OPC_SEND_WITH_INV:
      return "received SEND_INVALIDATE";
    case URMA_CR_OPC_WRITE_WITH_IMM:
      return "received WRITE_IMM";
    default:
      return "received";
  }
}

// Each %p becomes the process id, so that several processes can have the same setting.
std::string with_pid(std::string file) {
  const std::string pid = std::to_string(::getpid());
  for (size_t at = 0; (at = file.find("%p", at)) != std::string::npos; at += pid.size()) {
    file.replace(at, 2, pid);
  }
  return file;
}

// The kernel's name of a process or thread, without characters that JSON must escape.
std::string name_in(const std::string& file) {
  std::string name;
  std::getline(std::ifstream(file), name);
  std::erase_if(name, [](char c) { return c == '"' || c == '\\' || c < ' ' || c > '~'; });
  return name;
}

}  // namespace

Timeline::Timeline(const std::string& file) : pid_(::getpid()) {
  const std::string path = with_pid(file);
  // Does not wait for the other end if it is a pipe.
  constexpr int kFlags = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
  file_.reset(::open(path.c_str(), kFlags, 0600));
  struct stat info;
  if (!file_.valid() || ::fstat(file_.get(), &info) != 0) fail_errno(URMA_FAIL, "opening " + path);
  if (!S_ISREG(info.st_mode)) fail(URMA_FAIL, "{} is not a regular file", path);
  add(R"([{"name":"process_name","ph":"M","pid":)");
  add_number(static_cast<uint64_t>(pid_));
  add(R"(,"args":{"name":")");
  add(name_in("/proc/self/comm"));
  add("\"}}");
  if (!flush()) fail_errno(URMA_FAIL, "writing " + path);
}

uint64_t Timeline::ns_of(uint64_t ticks) const {
  const auto since = static_cast<double>(static_cast<int64_t>(ticks - first_ticks_));
  return first_ns_ + static_cast<uint64_t>(static_cast<int64_t>(since * ns_per_tick_));
}

void Timeline::add_number(uint64_t number, int base) {
  char digits[24];
  const auto result = std::to_chars(std::begin(digits), std::end(digits), number, base);
  text_.append(digits, result.ptr);
}

// In microseconds, as the format requires.
void Timeline::add_time(uint64_t ns) {
  add_number(ns / 1000);
  text_ += '.';
  const uint64_t rest = ns % 1000;
  text_.append(rest < 10 ? 2 : rest < 100 ? 1 : 0, '0');
  add_number(rest);
}

void Timeline::begin_event(std::string_view name, char phase, uint64_t ns, int32_t thread) {
  add(",\n{\"name\":\"");
  add(name);
  add("\",\"cat\":\"urma\",\"ph\":\"");
  text_ += phase;
  add("\",\"pid\":");
  add_number(static_cast<uint64_t>(pid_));
  add(",\"tid\":");
  add_number(static_cast<uint64_t>(thread));
  add(",\"ts\":");
  add_time(ns);
}

void Timeline::end_event() { text_ += '}'; }

void Timeline::add_what(const Moment& moment) {
  add(",\"args\":{\"queue\":");
  add_number(moment.queue_id);
  add(",\"peer\":\"");
  for (size_t i = 0; i < sizeof(moment.peer_eid.raw); i += 2) {
    if (i != 0) text_ += ':';
    add_number(static_cast<uint64_t>(moment.peer_eid.raw[i] << 8 | moment.peer_eid.raw[i + 1]), 16);
  }
  text_ += ' ';
  add_number(moment.peer_id);
  add("\",\"bytes\":");
  add_number(moment.bytes);
  add(",\"user_ctx\":");
  add_number(moment.user_ctx);
}

void Timeline::name_thread(int32_t thread) {
  if (std::find(named_.begin(), named_.end(), thread) != named_.end()) return;
  named_.push_back(thread);
  add(",\n{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":");
  add_number(static_cast<uint64_t>(pid_));
  add(",\"tid\":");
  add_number(static_cast<uint64_t>(thread));
  add(",\"args\":{\"name\":\"");
  add(name_in("/proc/self/task/" + std::to_string(thread) + "/comm"));
  add("\"}}");
}

void Timeline::write_posted(const Entry& entry) {
  const Moment& moment = entry.moment;
  const uint64_t posted = ns_of(moment.ticks - moment.took);
  const uint64_t published = ns_of(moment.ticks);
  const std::string_view name = opcode_name(moment.opcode);
  const Request request{++requests_, moment.user_ctx, moment.opcode, moment.signalled};
  begin_event("post", 'X', posted, entry.thread);
  add(",\"dur\":");
  add_time(published - posted);
  end_event();
  begin_event(name, 'b', posted, entry.thread);
  add(",\"id2\":{\"local\":\"");
  add_number(request.number);
  add("\"}");
  add_what(moment);
  add("}");
  end_event();
  for (const auto& [phase, ns] : {std::pair("posted", posted), std::pair("published", published)}) {
    begin_event(phase, 'n', ns, entry.thread);
    add(",\"id2\":{\"local\":\"");
    add_number(request.number);
    add("\"}");
    end_event();
  }
  auto& requests = outstanding_[moment.queue];
  requests.push_back(request);
  if (requests.size() > kMaxOutstanding) requests.pop_front();
}

void Timeline::write_end(const Request& request, const Entry& entry, uint8_t status) {
  const uint64_t ns = ns_of(entry.moment.ticks);
  for (const char phase : {'n', 'e'}) {
    begin_event(phase == 'n' ? "completed" : opcode_name(request.opcode), phase, ns, entry.thread);
    add(",\"id2\":{\"local\":\"");
    add_number(request.number);
    add("\"},\"args\":{\"status\":");
    add_number(status);
    add("}");
    end_event();
  }
}

// Records come in the order of their requests, and also end earlier requests without completion.
bool Timeline::write_completed(const Entry& entry) {
  const Moment& moment = entry.moment;
  auto& requests = outstanding_[moment.queue];
  const auto found = std::find_if(requests.begin(), requests.end(), [&](const Request& request) {
    return request.user_ctx == moment.user_ctx &&
           (request.signalled || moment.status != URMA_CR_SUCCESS);
  });
  if (found == requests.end()) return false;
  for (auto before = requests.begin(); before != found; ++before) {
    write_end(*before, entry, URMA_CR_SUCCESS);
  }
  write_end(*found, entry, moment.status);
  requests.erase(requests.begin(), found + 1);
  return true;
}

void Timeline::write_received(const Entry& entry) {
  begin_event(received_name(entry.moment.opcode), 'i', ns_of(entry.moment.ticks), entry.thread);
  add(",\"s\":\"t\"");
  add_what(entry.moment);
  add(",\"status\":");
  add_number(entry.moment.status);
  add("}");
  end_event();
}

void Timeline::write(std::span<const Entry> entries, uint64_t now_ticks, uint64_t now_ns) {
  if (first_ns_ == 0) {
    first_ticks_ = now_ticks;
    first_ns_ = now_ns;
  } else if (now_ticks != first_ticks_) {
    ns_per_tick_ =
        static_cast<double>(now_ns - first_ns_) / static_cast<double>(now_ticks - first_ticks_);
  }
  // Another thread may record a request just after its completion: such completions are tried once
  // more, then they count as having no request, like the markers of a flush.
  const std::vector<Entry> again = std::exchange(early_, {});
  for (const Entry& entry : entries) {
    name_thread(entry.thread);
    if (entry.moment.what == What::kPosted) write_posted(entry);
    if (entry.moment.what == What::kReceived) write_received(entry);
    if (entry.moment.what == What::kCompleted && !write_completed(entry)) early_.push_back(entry);
  }
  for (const Entry& entry : again) write_completed(entry);
}

void Timeline::write_lost(uint64_t count) {
  begin_event("lost", 'i', first_ns_, pid_);
  add(",\"s\":\"p\",\"args\":{\"count\":");
  add_number(count);
  add("}");
  end_event();
}

bool Timeline::put(std::string_view text) {
  for (uint64_t at = size_; !text.empty();) {
    const ssize_t n = ::pwrite(file_.get(), text.data(), text.size(), static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += static_cast<uint64_t>(n);
    text.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

// The next write overwrites the bracket.
bool Timeline::flush() {
  if (text_.empty() || failed_) return true;
  const size_t length = text_.size();
  text_ += "\n]\n";
  failed_ = !put(text_);
  size_ += length;
  text_.clear();
  return !failed_;
}

}  // namespace urma::core::trace
