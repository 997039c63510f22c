// SPDX-License-Identifier: MIT

#include "tools/perftest/option_table.h"

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tools/perftest/options.h"
#include "tools/perftest/values.h"

namespace perftest {
namespace {

// Adds options to one group of the help text.
class Group {
 public:
  Group(CLI::App& app, std::string title) : app_(app), title_(std::move(title)) {}

  void flag(const std::string& names, bool& target, const std::string& help) {
    app_.add_flag_callback(
            names, [&target] { target = true; }, help)
        ->group(title_);
  }

  template <class Take>
  void flag_with(const std::string& names, const std::string& help, Take take) {
    app_.add_flag_callback(names, std::move(take), help)->group(title_);
  }

  // `take` gets the text after the option.
  template <class Take>
  CLI::Option* value(const std::string& names, const char* type, const std::string& help,
                     Take take) {
    return app_.add_option_function<std::string>(names, std::move(take), help)
        ->group(title_)
        ->type_name(type)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  }

  template <class Number>
  void number(const std::string& names, Number& target, uint64_t min, uint64_t max,
              const std::string& example, const std::string& help) {
    value(names, "N", help, [&target, names, min, max, example](const std::string& text) {
      target = static_cast<Number>(parse_number(shortest(names), text, min, max, example));
    });
  }

  template <class Choice, class Target>
  void choice(const std::string& names, Target& target,
              const std::vector<std::pair<std::string, Choice>>& choices, const std::string& help) {
    std::string all;
    for (const auto& [name, unused] : choices) all += (all.empty() ? "" : "|") + name;
    value(names, all.c_str(), help, [&target, names, choices, all](const std::string& text) {
      for (const auto& [name, meaning] : choices) {
        if (name == text) {
          target = meaning;
          return;
        }
      }
      throw refusal(shortest(names) + " '" + text + "'", "one of " + all,
                    shortest(names) + " " + choices.front().first);
    });
  }

  // "-n" of "-n,--iters".
  static std::string shortest(const std::string& names) { return names.substr(0, names.find(',')); }

 private:
  CLI::App& app_;
  std::string title_;
};

constexpr uint64_t kAny = std::numeric_limits<uint32_t>::max();

void take_name(std::string& target, const std::string& option, const std::string& text,
               size_t longest, const std::string& example) {
  if (text.empty() || text.size() > longest) {
    throw refusal(option + " '" + text + "'", "1 to " + std::to_string(longest) + " characters",
                  option + " " + example);
  }
  target = text;
}

void add_place(CLI::App& app, Config& config) {
  Group group(app, "Devices and peers");
  group.value("-d,--dev", "NAME", "device (default: the only one)",
              [&config](const std::string& text) {
                take_name(config.device, "-d", text, URMA_MAX_DEV_NAME - 1, "urma_shm0");
              });
  group.number("--eid_idx", config.eid_index, 0, URMA_MAX_EID_CNT - 1, "0",
               "entry of the EID table (0)");
  group.value("-S,--server", "HOST", "be the client of the server at HOST",
              [&config](const std::string& text) {
                std::string host;
                take_name(host, "-S", text, 255, "127.0.0.1");
                config.server = host;
              });
  group.number("-P,--port", config.port, 1, 65535, "21115", "TCP port (21115)");
  group.value("--bind_ip", "IP", "address to listen on, or to connect from (any)",
              [&config](const std::string& text) {
                take_name(config.bind_ip, "--bind_ip", text, 255, "127.0.0.1");
              });
  group.flag("--enable_ipv6", config.ipv6, "exchange over IPv6");
  group.value("--mgmt", "tcp", "what the exchange goes over (tcp)", [](const std::string& text) {
    if (text != "tcp") throw refusal("--mgmt '" + text + "'", "tcp", "--mgmt tcp");
  });
  group.value("--pair_num", "N", "that many connections, a jetty for each; needs --seg_pre_jetty",
              [&config](const std::string& text) {
                config.pair_num =
                    static_cast<uint32_t>(parse_number("--pair_num", text, 1, 1024, "2"));
                config.pairs = true;
              });
}

void add_messages(CLI::App& app, Config& config) {
  Group group(app, "Messages");
  group.number("-s,--size", config.size, 1, uint64_t{1} << 31, "65536",
               "bytes of a message (latency 2, bandwidth 65536, atomic 8)");
  group
      .value("-a,--all", "[ORDER]",
             "all sizes from 2^1 to 2^ORDER, as in -a20 (send 12, others 16)",
             [&config](const std::string& text) {
               config.all_sizes = true;
               if (text == kNoValue) return;
               config.order = static_cast<uint32_t>(parse_number("-a", text, 1, 23, "20"));
             })
      ->expected(0, 1);
  group.number("--min_size", config.min_size, 1, kAny, "64", "random sizes from this (bandwidth)");
  group.number("--max_size", config.max_size, 1, kAny, "4096", "to this, which is at most --size");
  group.choice<AtomicType>("-A,--atomic_type", config.atomic_type,
                           {{"cas", AtomicType::kCas}, {"faa", AtomicType::kFetchAdd}},
                           "atomic operation (cas)");
  group.number("-I,--inline_size", config.inline_size, 0, kAny, "128",
               "inline messages up to this size (0)");
  group.number("--sge_num", config.sge_num, 1, 64, "2", "local pieces of a message (1)");
  group.flag("--enable_imm", config.immediate, "write or send with immediate data");
  group.flag("--enable_notify", config.notify, "write with notify");
  group.flag("-B,--bidirection", config.bidirectional, "both sides at once (bandwidth)");
  group.choice<Layout>(
      "--layout", config.layout,
      {{"short", Layout::kShort}, {"bcopy", Layout::kBcopy}, {"zcopy", Layout::kZcopy}},
      "inline, copied into a registered buffer first, or registered");
  group.flag("--verify", config.verify, "check every byte moved");
}

void add_length(CLI::App& app, Config& config) {
  Group group(app, "Duration");
  group.value("-n,--iters", "N", "iterations (latency 10000, bandwidth 50000)",
              [&config](const std::string& text) {
                config.iterations = parse_number("-n", text, 5, 100000000, "1000");
              });
  group.value("-D,--duration", "SECONDS", "run that long; the middle half is measured",
              [&config](const std::string& text) {
                config.duration_s =
                    static_cast<uint32_t>(parse_number("-D", text, 4, 31536000, "8"));
                config.ends_by = EndsBy::kDuration;
              });
  group
      .value("-y,--infinite", "[SECONDS]", "run until Ctrl-C; a row every 2 seconds, or as in -y5",
             [&config](const std::string& text) {
               config.ends_by = EndsBy::kUser;
               if (text == kNoValue) return;
               config.infinite_period_s =
                   static_cast<uint32_t>(parse_number("-y", text, 1, 86400, "5"));
             })
      ->expected(0, 1);
  group.number("--inf_period_ms", config.infinite_period_ms, 50, 86400000, "500",
               "the same period in milliseconds, a multiple of 50");
  group.flag("-w,--warm_up", config.warm_up, "warm up first (bandwidth of read, write, atomic)");
  group.value("--warmup", "N", "iterations before the measured ones",
              [&config](const std::string& text) {
                config.warmup_iterations = parse_number("--warmup", text, 0, 100000000, "1000");
              });
  group.flag("-N,--no_peak", config.no_peak, "do not take the peak bandwidth");
}

void add_queues(CLI::App& app, Config& config) {
  Group group(app, "Queues");
  group.choice<urma_transport_mode_t>("-p,--trans_mode", config.mode,
                                      {{"0", URMA_TM_RM}, {"1", URMA_TM_RC}, {"2", URMA_TM_UM}},
                                      "RM, RC or UM (0)");
  group.flag_with("-b,--simplex_mode", "JFS and JFR instead of a jetty",
                  [&config] { config.jetty_mode = JettyMode::kSimplex; });
  group.flag("-f,--use_flat_api", config.flat_api, "urma_read, urma_write, ... (needs -b)");
  group.number("-J,--jettys", config.jettys, 1, 65535, "4", "jettys (1; more for bandwidth only)");
  group.number("--jettys_pre_jfr", config.jettys_per_jfr, 1, 65535, "2",
               "jettys that share a JFR (all)");
  group.flag("--seg_pre_jetty", config.segment_per_jetty, "a segment for each jetty");
  group.flag("--share_jfs", config.share_jfs, "one JFS for all pairs");
  group.choice<bool>("-j,--share_jfr", config.share_jfr, {{"true", true}, {"false", false}},
                     "share JFRs between jettys (false; always on UB devices)");
  group.number("--jetty_id", config.jetty_id, 0, kAny, "5", "id of the local jetty (any)");
  group.number("-T,--jfs_depth", config.jfs_depth, 1, 15000, "128",
               "depth (latency 1, bandwidth 128)");
  group.number("-R,--jfr_depth", config.jfr_depth, 1, 32768, "512",
               "depth (send and write 512, others 1)");
  group.number("-C,--jfc_depth", config.jfc_depth, 1, kAny, "4096",
               "depth (latency 512, bandwidth 4096)");
  group.number("-l,--jfs_post_list", config.jfs_post_list, 1, 15000, "16",
               "requests of one post (1)");
  group.number("-r,--jfr_post_list", config.jfr_post_list, 1, 32768, "16",
               "receive requests of one post (1)");
  group.number("-Q,--cq_mod", config.cq_mod, 1, 1024, "100", "a completion every N requests (100)");
  group.number("--window", config.window, 1, 15000, "32",
               "requests posted and not completed (--jfs_depth)");
  group.flag("-c,--jfc_inline", config.jfc_inline, "received data inside the completion");
  group.flag("-L,--lock_free", config.lock_free, "queues without locks");
  group.number("-O,--priority", config.priority, 0, 15, "3", "priority (chosen by channel type)");
  group.number("-E,--err_timeout", config.err_timeout, 0, 31, "17", "error timeout of a JFS (17)");
  group.choice<urma_order_type_t>(
      "--order_type", config.order_type,
      {{"0", URMA_DEF_ORDER}, {"1", URMA_OT}, {"2", URMA_OI}, {"3", URMA_OL}, {"4", URMA_NO}},
      "default, OT, OI, OL, NO (0)");
  group.flag("-e,--use_jfce", config.events, "wait for events instead of polling");
  group.flag("--poll-always", config.poll_always,
             "poll also while this side only waits (read, write, atomic)");
  group.value("--wait_jfc_timeout", "MS", "limit of such a wait, 0: poll, -1: none (1000)",
              [&config](const std::string& text) {
                config.wait_jfc_timeout_ms = parse_timeout("--wait_jfc_timeout", text);
              });
  group.number("-K,--token_policy", config.token_policy, 0, 3, "1",
               "none, plain text, signed, encrypted (0)");
  group.flag("--enable_err_continue", config.error_continue, "go on after errors (bandwidth)");
}

void add_flow(CLI::App& app, Config& config) {
  Group group(app, "Flow");
  group.value("--rate_limit", "X", "limit of the rate (bandwidth, not atomic)",
              [&config](const std::string& text) {
                config.rate_limit = parse_positive("--rate_limit", text, "0.5");
                config.rate_limited = true;
              });
  group.choice<RateUnit>(
      "--rate_units", config.rate_unit,
      {{"M", RateUnit::kMegabytes}, {"G", RateUnit::kGigabits}, {"P", RateUnit::kKilopackets}},
      "MB/s, Gb/s or thousand packets/s (G)");
  group.number("--burst_size", config.burst_size, 1, 15000, "16", "requests at once (--jfs_depth)");
  group.flag("--enable_credit", config.credit, "sender waits for credits (send_bw)");
  group.number("--credit_threshold", config.credit_threshold, 1, 32768, "384",
               "unacknowledged messages before it waits (3/4 of --jfr_depth)");
  group.number("--credit_notify_cnt", config.credit_notify_count, 1, 32768, "128",
               "messages between credits (1/4 of --jfr_depth)");
  group
      .value(
          "--enable_write_dirty", "[MS]", "a thread writes to the buffer every MS (50; bandwidth)",
          [&config](const std::string& text) {
            config.write_dirty_ms = 50;
            if (text == kNoValue) return;
            config.write_dirty_ms =
                static_cast<uint32_t>(parse_number("--enable_write_dirty", text, 1, 60000, "50"));
          })
      ->expected(0, 1);
  group.flag("--enable_sync_stream", config.sync_stream, "a row for each jetty");
}

void add_imports(CLI::App& app, Config& config) {
  Group group(app, "Imports and transport channels");
  group.flag("--async_import", config.async_import, "import and bind by notifier");
  group.flag("--tp_aware", config.tp_aware, "list the channels, import over one of them");
  group.flag("--tp_reuse", config.tp_reuse, "reuse channels");
  group.flag("--ctp", config.ctp, "compact channel");
  group.flag("--enable_user_tp", config.user_tp, "channel of the user");
  group.flag("--oor_en", config.oor, "out-of-order receive");
  group.flag("--spray_en", config.spray, "several source ports");
  group.flag("--cc_en", config.cc, "congestion control");
  group.number("--cc_alg", config.cc_alg, 0, 9, "1", "its algorithm (0)");
  group.number("--retry_num", config.retry_num, 0, 7, "7", "retries (7)");
  group.number("--ack_timeout", config.ack_timeout, 0, 31, "15", "timeout of an answer (15)");
  group.choice<urma_context_aggr_mode_t>("-o,--aggr_mode,--bond_mode", config.aggr_mode,
                                         {{"standalone", URMA_AGGR_MODE_STANDALONE},
                                          {"active_backup", URMA_AGGR_MODE_ACTIVE_BACKUP},
                                          {"balance", URMA_AGGR_MODE_BALANCE}},
                                         "of an aggregated device (standalone)");
  group.choice<std::string>("--bond_level", config.bond_level,
                            {{"iodie", "iodie"}, {"port", "port"}},
                            "of an aggregated device (iodie)");
  group.flag("--single_path", config.single_path, "the same as --bond_level port");
  group.flag("-z,--use_bonding", config.bonding, "the device is an aggregated one");
  group.flag("-u,--uboe", config.uboe, "UB over Ethernet; needs --sip and --dip");
  group.value("--sip", "IP", "its source", [&config](const std::string& text) {
    take_name(config.source_ip, "--sip", text, 45, "10.0.0.1");
  });
  group.value("--dip", "IP", "its destination", [&config](const std::string& text) {
    take_name(config.destination_ip, "--dip", text, 45, "10.0.0.2");
  });
  group.number("--dscp", config.dscp, 0, 63, "10", "its DSCP (0)");
  group.number("--vlan", config.vlan, 0, 4095, "100", "its VLAN (0)");
  group.number("--sl", config.sl, 0, 15, "3", "its service level (0)");
}

void add_memory(CLI::App& app, Config& config) {
  Group group(app, "Memory");
  group.number("--page_size", config.page_size, 4096, uint64_t{1} << 30, "4096",
               "pages the buffer starts on, a multiple of 4096 (the system's)");
  group.choice<HugePages>(
      "--hugepage_size", config.huge_pages,
      {{"2MB", HugePages::k2Mb}, {"1GB", HugePages::k1Gb}, {"ANY", HugePages::kAny}}, "huge pages");
  group.value("--va", "ADDRESS", "address of the buffer", [&config](const std::string& text) {
    config.va = parse_number("--va", text, 1, std::numeric_limits<uint64_t>::max(), "0x100000000");
  });
}

void add_output(CLI::App& app, Config& config) {
  Group group(app, "Output");
  group.choice<Format>("--format", config.format,
                       {{"text", Format::kText}, {"csv", Format::kCsv}, {"json", Format::kJson}},
                       "of the report (text)");
  group.flag("--thousands", config.thousands, "1,234,567 in the text report");
  group.flag("--final", config.final_only, "only the final figures");
  group.value("--percentiles", "LIST", "percentiles to print (99,99.9,99.99,99.999; latency)",
              [&config](const std::string& text) {
                config.percentiles = parse_percentiles("--percentiles", text);
                config.own_percentiles = true;
              });
  group.choice<BwUnit>(
      "--bw_unit", config.bw_unit,
      {{"KB", BwUnit::kKilobytes}, {"MB", BwUnit::kMegabytes}, {"GB", BwUnit::kGigabytes}},
      "2^10, 2^20 or 2^30 bytes in the text report (MB)");
  app.add_flag_function(
         "-v,--verbose",
         [&config](int64_t times) { config.verbosity = static_cast<uint32_t>(times); },
         "more of the library's log; repeatable")
      ->group("Output");
  group.flag("--stdout", config.log_to_stdout, "all of the library's log, on stdout");
  group.flag("-F,--cpu_freq_f", config.cpu_frequency_check, "warn if the clock of the CPU changes");
}

void add_process(CLI::App& app, Config& config) {
  Group group(app, "The process");
  group.flag("--loopback", config.loopback, "client and server in this process");
  group.flag("--accept-forever", config.accept_forever, "server: one client after the other");
  group.value(
      "--cpu", "N[,M]", "run on CPU N; with --loopback the server on M",
      [&config](const std::string& text) {
        const size_t comma = text.find(',');
        config.cpu =
            static_cast<uint32_t>(parse_number("--cpu", text.substr(0, comma), 0, 1023, "2"));
        if (comma == std::string::npos) return;
        config.server_cpu =
            static_cast<uint32_t>(parse_number("--cpu", text.substr(comma + 1), 0, 1023, "2,3"));
      });
  app.add_option("--batch", config.batch_files,
                 "a run for each line: a name, then options; files multiply")
      ->group("The process")
      ->type_name("FILE")
      ->allow_extra_args(false);
  group.value("--test", "NAME", "a test other than the first argument, for lines of batch files",
              [&config](const std::string& text) { set_test(config, text); });
}

}  // namespace

void add_options(CLI::App& app, Config& config) {
  add_place(app, config);
  add_messages(app, config);
  add_length(app, config);
  add_queues(app, config);
  add_flow(app, config);
  add_imports(app, config);
  add_memory(app, config);
  add_output(app, config);
  add_process(app, config);
}

}  // namespace perftest
