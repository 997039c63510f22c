// SPDX-License-Identifier: MIT
//
// The configuration of a run of urma_perftest: every option, decoded. parse_options (options.h)
// makes it, with the test's defaults; everything else only reads it.
#ifndef TOOLS_PERFTEST_CONFIG_H_
#define TOOLS_PERFTEST_CONFIG_H_

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "urma_types.h"

namespace perftest {

// A wrong option, value or combination; the text is one line for the user. Exit code 2.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A failure of a run; the text is one line for the user. Exit code 1.
struct RunError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The numbers of these enumerations travel in the configuration block, see wire.h.
enum class Api : uint32_t { kRead = 0, kWrite = 1, kSend = 2, kAtomic = 3 };
enum class Kind : uint32_t { kLatency = 0, kBandwidth = 1 };
enum class AtomicType : uint32_t { kCas = 0, kFetchAdd = 1 };
enum class JettyMode : uint32_t { kSimplex = 0, kDuplex = 1 };
enum class RateUnit : uint32_t { kMegabytes = 0, kGigabits = 1, kKilopackets = 2 };
enum class BwUnit : uint32_t { kKilobytes = 0, kMegabytes = 1, kGigabytes = 2 };

// How a test ends: after a number of iterations, after a time (-D), or by the user (-y).
enum class EndsBy { kIterations, kDuration, kUser };

// The memory of a message when it is posted (--layout).
enum class Layout {
  kDefault,  // as -I says: inline up to that size, registered memory above
  kShort,    // inline, whatever -I says; sizes above the device's limit are refused
  kBcopy,    // copied into a registered staging buffer by the tool before each post
  kZcopy,    // registered memory, never inline
};

enum class Format { kText, kCsv, kJson };
enum class HugePages { kNone, k2Mb, k1Gb, kAny };

constexpr uint8_t kAutoPriority = 255;
constexpr uint32_t kTokenValue = 0xABCDEF;     // of every segment and jetty, as in UMDK's tool
constexpr uint64_t kImmediate = 0x20230416;    // of --enable_imm
constexpr uint64_t kAllSizesBuffer = 8 << 20;  // -a sizes the buffer for this, whatever the order
constexpr uint64_t kBandwidthIterations = 50000;  // without -n
constexpr int kWaitForever = -1;

// There is only one, and its order is that of the options.
// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding)
struct Config {
  // The test, from its name.
  std::string test;  // "send_lat"
  Api api = Api::kSend;
  Kind kind = Kind::kLatency;
  AtomicType atomic_type = AtomicType::kCas;

  // Devices and peers.
  std::string device;                 // -d
  uint32_t eid_index = 0;             // --eid_idx
  std::optional<std::string> server;  // -S; without it this side is the server (see is_client)
  std::string bind_ip;                // --bind_ip; empty: any
  uint16_t port = 21115;              // -P
  bool ipv6 = false;                  // --enable_ipv6
  uint32_t pair_num = 1;              // --pair_num
  bool pairs = false;                 // --pair_num was given

  // Messages.
  uint32_t size = 0;                 // -s; of one work request
  bool all_sizes = false;            // -a
  uint32_t order = 0;                // -a: sizes 2^1 to 2^order
  bool random_sizes = false;         // --min_size and --max_size were given
  uint32_t min_size = 0;             //
  uint32_t max_size = 0;             //
  uint32_t sge_num = 1;              // --sge_num
  uint32_t inline_size = 0;          // -I; inline if size <= this; 0: never
  bool immediate = false;            // --enable_imm
  bool notify = false;               // --enable_notify
  bool bidirectional = false;        // -B
  Layout layout = Layout::kDefault;  // --layout
  bool verify = false;               // --verify: check every byte moved

  // Duration.
  EndsBy ends_by = EndsBy::kIterations;
  uint64_t iterations = 0;                    // -n; 0 unless ends_by is kIterations
  uint32_t duration_s = 5;                    // -D: D/4 warm-up, D/2 measured, D/4 tail
  uint32_t infinite_period_s = 2;             // -y
  uint32_t infinite_period_ms = 2000;         // --inf_period_ms, else infinite_period_s * 1000
  std::optional<uint64_t> warmup_iterations;  // --warmup
  bool warm_up = false;                       // -w, or --warmup above 0
  bool no_peak = false;                       // -N, or implied

  // Queues.
  urma_transport_mode_t mode = URMA_TM_RM;    // -p
  JettyMode jetty_mode = JettyMode::kDuplex;  // -b: kSimplex
  bool flat_api = false;                      // -f
  bool poll_always = false;                   // --poll-always
  uint32_t jettys = 1;                        // -J
  uint32_t jettys_per_jfr = 0;                // --jettys_pre_jfr
  bool segment_per_jetty = false;             // --seg_pre_jetty
  bool share_jfs = false;                     // --share_jfs
  bool share_jfr = false;                     // -j; the engine forces it on a UB device
  uint32_t jetty_id = 0;                      // --jetty_id; 0: the library chooses
  uint32_t jfs_depth = 0;                     // -T
  uint32_t jfr_depth = 0;                     // -R
  uint32_t jfc_depth = 0;                     // -C
  uint32_t jfs_post_list = 1;                 // -l
  uint32_t jfr_post_list = 1;                 // -r
  uint32_t cq_mod = 0;                        // -Q: signal every cq_mod-th request
  uint32_t window = 0;      // --window: requests posted and not yet completed, per jetty; jfs_depth
                            // unless given, never more
  bool jfc_inline = false;  // -c
  bool lock_free = false;   // -L
  uint8_t priority = kAutoPriority;               // -O
  uint8_t err_timeout = 17;                       // -E
  urma_order_type_t order_type = URMA_DEF_ORDER;  // --order_type
  bool events = false;                            // -e
  int wait_jfc_timeout_ms = 1000;                 // --wait_jfc_timeout; 0: poll, kWaitForever
  uint8_t token_policy = 0;                       // -K
  bool error_continue = false;                    // --enable_err_continue

  // Flow.
  bool rate_limited = false;  // --rate_limit was given
  double rate_limit = 0;      //
  RateUnit rate_unit = RateUnit::kGigabits;
  uint32_t burst_size = 0;  // --burst_size; jfs_depth unless given
  bool credit = false;      // --enable_credit
  uint32_t credit_threshold = 0;
  uint32_t credit_notify_count = 0;
  std::optional<uint32_t> write_dirty_ms;  // --enable_write_dirty
  bool sync_stream = false;                // --enable_sync_stream

  // Imports and transport channels.
  bool async_import = false;  // --async_import
  bool tp_aware = false;      // --tp_aware
  bool tp_reuse = false;      // --tp_reuse
  bool ctp = false;           // --ctp
  bool user_tp = false;       // --enable_user_tp: refused at run time, as UMDK's tool does
  bool oor = false;
  bool spray = false;
  bool cc = false;
  uint32_t cc_alg = 0;
  uint32_t retry_num = 7;
  uint32_t ack_timeout = 15;
  std::optional<urma_context_aggr_mode_t> aggr_mode;  // --aggr_mode
  std::string bond_level = "iodie";                   // --bond_level; --single_path: "port"
  bool single_path = false;
  bool bonding = false;  // -z
  bool uboe = false;     // -u
  std::string source_ip;
  std::string destination_ip;
  uint32_t dscp = 0;
  uint32_t vlan = 0;
  uint32_t sl = 0;

  // Memory.
  uint64_t page_size = 0;  // --page_size, else the system's
  HugePages huge_pages = HugePages::kNone;
  std::optional<uint64_t> va;  // --va: the buffer's address

  // Output.
  Format format = Format::kText;        // --format
  bool thousands = false;               // --thousands
  bool final_only = false;              // --final
  std::vector<double> percentiles;      // --percentiles, in percent; else 99, 99.9, 99.99, 99.999
  bool own_percentiles = false;         // --percentiles was given
  BwUnit bw_unit = BwUnit::kMegabytes;  // --bw_unit
  uint32_t verbosity = 0;               // -v, once each; --stdout: the most
  bool log_to_stdout = false;           // --stdout
  bool cpu_frequency_check = false;     // -F

  // The process.
  bool loopback = false;                 // --loopback
  bool accept_forever = false;           // --accept-forever
  std::optional<uint32_t> cpu;           // --cpu
  std::optional<uint32_t> server_cpu;    // --cpu N,M: of the server's thread with --loopback
  std::vector<std::string> batch_files;  // --batch
  std::string batch_label;               // of this run: the names of the lines it comes from

  // Loopback runs the two sides with copies of one Config that differ in `loopback_server` alone.
  bool loopback_server = false;

  bool is_client() const { return loopback ? !loopback_server : server.has_value(); }
  bool latency() const { return kind == Kind::kLatency; }
  bool bandwidth() const { return kind == Kind::kBandwidth; }
  bool duplex() const { return jetty_mode == JettyMode::kDuplex; }

  // The sizes to measure, one report row each, the largest last.
  std::vector<uint32_t> sizes() const;

  // Buffer size of one jetty: the size, or kAllSizesBuffer.
  uint64_t buffer_size() const;
};

// Finds the device, and calls check_against_device. main.cc does this before waiting for a peer.
// Throws UsageError.
void check_device(const Config& config);

// Rejects what the device cannot do, before a run starts: throws UsageError with the limit.
void check_against_device(const Config& config, const urma_device_attr_t& attributes);

// The names of all devices, "urma_shm0, urma_shm1", or "none". urma_init must have been called.
std::string list_devices();

// The error if config.device does not exist: names the existing devices.
UsageError unknown_device(const Config& config);

}  // namespace perftest

#endif  // TOOLS_PERFTEST_CONFIG_H_
