// SPDX-License-Identifier: MIT
//
// The command line of urma_perftest: every option with valid and invalid values, the defaults of
// each test, and conflicts.

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "tools/perftest/options.h"

namespace perftest {
namespace {

// "write_bw -n 5" with a device, if the line names none.
Parsed parse(const std::string& line) {
  std::istringstream text(line);
  std::vector<std::string> words;
  for (std::string word; text >> word;) words.push_back(word);
  bool device = false;
  for (const std::string& word : words) device |= word == "-d" || word.starts_with("--dev");
  if (!device && !words.empty()) words.insert(words.begin() + 1, {"-d", "urma_shm0"});
  return parse_options(words);
}

Config config_of(const std::string& line) { return parse(line).config.value(); }

// The error message for a line, "" if it is valid.
std::string refusal_of(const std::string& line) {
  try {
    parse(line);
    return "";
  } catch (const UsageError& error) {
    return error.what();
  }
}

struct Good {
  const char* line;
  bool (*holds)(const Config&);
};

class GoodLine : public testing::TestWithParam<Good> {};

TEST_P(GoodLine, IsTaken) {
  EXPECT_EQ(refusal_of(GetParam().line), "") << GetParam().line;
  EXPECT_TRUE(GetParam().holds(config_of(GetParam().line))) << GetParam().line;
}

#define HOLDS(condition) [](const Config& c) { return condition; }

INSTANTIATE_TEST_SUITE_P(
    Defaults, GoodLine,
    testing::ValuesIn(std::vector<Good>{
        Good{"read_lat", HOLDS(c.api == Api::kRead && c.latency() && c.size == 2)},
        Good{"write_lat", HOLDS(c.api == Api::kWrite && c.iterations == 10000)},
        Good{"send_lat", HOLDS(c.jfs_depth == 1 && c.jfr_depth == 512 && c.jfc_depth == 512)},
        Good{"atomic_lat", HOLDS(c.size == 8 && c.atomic_type == AtomicType::kCas)},
        Good{"read_bw", HOLDS(c.bandwidth() && c.size == 65536 && c.jfr_depth == 2)},
        Good{"write_bw", HOLDS(c.iterations == 50000 && c.jfs_depth == 128 && c.cq_mod == 100)},
        Good{"send_bw", HOLDS(c.jfc_depth == 4096 && c.order == 12 && c.no_peak)},
        Good{"send_bw -S h", HOLDS(!c.no_peak)},
        Good{"atomic_bw", HOLDS(c.size == 8 && c.order == 16)},
        Good{"read_lat", HOLDS(c.cq_mod == 1)},
        Good{"write_bw", HOLDS(c.priority == 255 && c.port == 21115 && c.err_timeout == 17)},
        Good{"write_bw", HOLDS(c.duration_s == 5 && c.infinite_period_ms == 2000)},
        Good{"write_bw", HOLDS(c.mode == URMA_TM_RM && c.duplex() && c.jettys == 1)},
        Good{"write_bw", HOLDS(c.wait_jfc_timeout_ms == 1000 && c.sge_num == 1)},
        Good{"write_bw", HOLDS(c.window == 128 && c.burst_size == 128 && !c.warm_up)},
        Good{"write_bw", HOLDS(c.retry_num == 7 && c.ack_timeout == 15 && !c.is_client())},
        Good{"write_bw", HOLDS(c.percentiles.size() == 4 && c.format == Format::kText)}}));

INSTANTIATE_TEST_SUITE_P(
    ShortAndLong, GoodLine,
    testing::ValuesIn(std::vector<Good>{
        Good{"write_bw -a", HOLDS(c.all_sizes&& c.order == 16)},
        Good{"write_bw --all=20", HOLDS(c.all_sizes&& c.order == 20)},
        Good{"write_bw -a20", HOLDS(c.sizes().size() == 20 && c.sizes().back() == 1 << 20)},
        Good{"atomic_lat -A faa", HOLDS(c.atomic_type == AtomicType::kFetchAdd)},
        Good{"atomic_lat --atomic_type=cas", HOLDS(c.atomic_type == AtomicType::kCas)},
        Good{"send_bw -b", HOLDS(c.jetty_mode == JettyMode::kSimplex)},
        Good{"send_bw --simplex_mode", HOLDS(!c.duplex())},
        Good{"send_bw -B", HOLDS(c.bidirectional)},
        Good{"send_bw --bidirection", HOLDS(c.bidirectional&& c.no_peak == false)},
        Good{"send_bw -c", HOLDS(c.jfc_inline)},
        Good{"send_bw --jfc_inline", HOLDS(c.jfc_inline)},
        Good{"send_bw -C 0x100", HOLDS(c.jfc_depth == 256)},
        Good{"send_bw --jfc_depth=010", HOLDS(c.jfc_depth == 8)},
        Good{"send_bw --dev bonding_dev_0", HOLDS(c.device == "bonding_dev_0")},
        Good{"send_bw -D 8", HOLDS(c.ends_by == EndsBy::kDuration && c.duration_s == 8)},
        Good{"send_bw --duration=4 -S h", HOLDS(c.iterations == 0 && c.no_peak)},
        Good{"send_lat -e", HOLDS(c.events)},
        Good{"read_bw --use_jfce", HOLDS(c.events)},
        Good{"send_bw --eid_idx 3", HOLDS(c.eid_index == 3)},
        Good{"send_bw -E 31", HOLDS(c.err_timeout == 31)},
        Good{"send_bw --err_timeout 0", HOLDS(c.err_timeout == 0)},
        Good{"send_bw -bf", HOLDS(c.flat_api && !c.duplex())},
        Good{"send_bw -b --use_flat_api", HOLDS(c.flat_api)},
        Good{"send_bw -F", HOLDS(c.cpu_frequency_check)},
        Good{"send_bw --cpu_freq_f", HOLDS(c.cpu_frequency_check)},
        Good{"send_bw -I 128", HOLDS(c.inline_size == 128)},
        Good{"read_bw --inline_size 128", HOLDS(c.inline_size == 0)},
        Good{"send_bw -j true", HOLDS(c.share_jfr)},
        Good{"send_bw --share_jfr false", HOLDS(!c.share_jfr)},
        Good{"send_bw -J 4", HOLDS(c.jettys == 4 && c.jettys_per_jfr == 4)},
        Good{"send_bw --jettys 65535", HOLDS(c.jettys == 65535)},
        Good{"send_bw -K3", HOLDS(c.token_policy == 3)},
        Good{"send_bw --token_policy 0", HOLDS(c.token_policy == 0)},
        Good{"send_bw -n 5", HOLDS(c.iterations == 5 && c.jfr_depth == 6)},
        Good{"send_bw --iters 100000000", HOLDS(c.iterations == 100000000 && c.no_peak)}}));

INSTANTIATE_TEST_SUITE_P(
    ShortAndLongOn, GoodLine,
    testing::ValuesIn(std::vector<Good>{
        Good{"write_bw -N", HOLDS(c.no_peak)},
        Good{"write_bw --no_peak", HOLDS(c.no_peak)},
        Good{"write_bw -l 16", HOLDS(c.jfs_post_list == 16 && c.cq_mod == 16)},
        Good{"write_bw --jfs_post_list 16 -Q 4", HOLDS(c.cq_mod == 4)},
        Good{"write_bw -l 7", HOLDS(c.iterations % 7 == 0 && c.iterations >= 50000)},
        Good{"write_bw -L", HOLDS(c.lock_free)},
        Good{"write_bw --lock_free", HOLDS(c.lock_free)},
        Good{"write_bw -O 15", HOLDS(c.priority == 15)},
        Good{"write_bw --priority 0", HOLDS(c.priority == 0)},
        Good{"send_bw -p 2", HOLDS(c.mode == URMA_TM_UM)},
        Good{"send_bw --trans_mode 1", HOLDS(c.mode == URMA_TM_RC)},
        Good{"write_bw -P 1", HOLDS(c.port == 1)},
        Good{"write_bw --port 65535", HOLDS(c.port == 65535)},
        Good{"write_bw -Q 1024", HOLDS(c.cq_mod == 128)},
        Good{"write_bw --cq_mod 1", HOLDS(c.cq_mod == 1)},
        Good{"write_bw -s 1048576", HOLDS(c.cq_mod == 64)},
        Good{"write_bw -s 0x8000000", HOLDS(c.cq_mod == 1)},
        Good{"write_bw -a23", HOLDS(c.cq_mod == 8)},
        Good{"write_bw -a", HOLDS(c.cq_mod == 100)},
        Good{"write_bw -s 8388608 -Q 100", HOLDS(c.cq_mod == 100)},
        Good{"write_bw -s 8388608 -l 12", HOLDS(c.cq_mod == 12)},
        Good{"send_lat -r 5", HOLDS(c.jfr_post_list == 5)},
        Good{"write_bw --jfr_post_list 2", HOLDS(c.jfr_post_list == 2)},
        Good{"send_bw -R 33", HOLDS(c.jfr_depth == 34)},
        Good{"send_bw --jfr_depth 32768", HOLDS(c.jfr_depth == 32768)},
        Good{"write_bw -s 1", HOLDS(c.size == 1)},
        Good{"send_bw --size 1048576", HOLDS(c.size == 1 << 20)},
        Good{"write_bw -S 10.0.0.1", HOLDS(c.is_client() && *c.server == "10.0.0.1")},
        Good{"write_bw --server host", HOLDS(*c.server == "host")},
        Good{"write_bw -T 1", HOLDS(c.jfs_depth == 1 && c.cq_mod == 1)},
        Good{"write_bw --jfs_depth 15000", HOLDS(c.jfs_depth == 15000)},
        Good{"write_bw -u --sip 10.0.0.1 --dip 10.0.0.2", HOLDS(c.uboe)},
        Good{"write_bw -vv", HOLDS(c.verbosity == 2)},
        Good{"write_bw --verbose", HOLDS(c.verbosity == 1)},
        Good{"write_bw -w", HOLDS(c.warm_up)},
        Good{"read_bw --warm_up", HOLDS(c.warm_up)},
        Good{"write_bw -y", HOLDS(c.ends_by == EndsBy::kUser && c.infinite_period_ms == 2000)},
        Good{"write_bw -y5", HOLDS(c.infinite_period_ms == 5000 && c.no_peak)},
        Good{"write_bw --infinite=3", HOLDS(c.infinite_period_s == 3)},
        Good{"write_bw -y -B", HOLDS(c.bidirectional)},
        Good{"write_bw -y --inf_period_ms 50", HOLDS(c.infinite_period_ms == 50)},
        Good{"write_bw -z", HOLDS(c.bonding)},
        Good{"write_bw --use_bonding", HOLDS(c.bonding)}}));

INSTANTIATE_TEST_SUITE_P(
    LongOnly, GoodLine,
    testing::ValuesIn(std::vector<Good>{
        Good{"write_bw --single_path", HOLDS(c.bond_level == "port")},
        Good{"write_bw --rate_limit 0.1 --rate_units G --burst_size 1",
             HOLDS(c.rate_limited&& c.rate_limit == 0.1 && c.burst_size == 1)},
        Good{"write_bw --rate_limit 7 --rate_units P",
             HOLDS(c.rate_unit == RateUnit::kKilopackets)},
        Good{"write_bw --order_type 4", HOLDS(c.order_type == URMA_NO)},
        Good{"write_bw --mgmt tcp", HOLDS(c.bandwidth())},
        Good{"write_bw --enable_ipv6", HOLDS(c.ipv6)},
        Good{"send_bw --enable_credit",
             HOLDS(c.credit&& c.credit_threshold == 384 && c.credit_notify_count == 128)},
        Good{"send_bw --enable_credit --credit_threshold 10 --credit_notify_cnt 5",
             HOLDS(c.credit_threshold == 10 && c.credit_notify_count == 5)},
        Good{"write_bw -J 4 --jettys_pre_jfr 2", HOLDS(c.jettys_per_jfr == 2)},
        Good{"write_bw --seg_pre_jetty", HOLDS(c.segment_per_jetty)},
        Good{"write_bw --enable_imm", HOLDS(c.immediate)},
        Good{"write_lat --enable_notify", HOLDS(c.notify)},
        Good{"write_bw --enable_err_continue", HOLDS(c.error_continue)},
        Good{"write_bw --enable_user_tp --oor_en --spray_en --cc_en --cc_alg 3 --retry_num 2",
             HOLDS(c.user_tp&& c.oor&& c.spray&& c.cc&& c.cc_alg == 3 && c.retry_num == 2)},
        Good{"write_bw --ack_timeout 1", HOLDS(c.ack_timeout == 1)},
        Good{"write_bw --sge_num 4", HOLDS(c.sge_num == 4)},
        Good{"write_lat --sge_num 4", HOLDS(c.size == 4)},
        Good{"write_bw --enable_write_dirty", HOLDS(c.write_dirty_ms == 50u)},
        Good{"write_bw --enable_write_dirty 20", HOLDS(c.write_dirty_ms == 20u)},
        Good{"write_bw --enable_write_dirty=7", HOLDS(c.write_dirty_ms == 7u)},
        Good{"write_bw --pair_num 3 --seg_pre_jetty", HOLDS(c.pairs&& c.jettys == 3)},
        Good{"write_bw --async_import", HOLDS(c.async_import)},
        Good{"write_bw --tp_aware --tp_reuse", HOLDS(c.tp_aware&& c.tp_reuse)},
        Good{"send_bw --ctp", HOLDS(c.ctp&& c.size == 4096)},
        Good{"write_bw --jetty_id 0x20", HOLDS(c.jetty_id == 32)},
        Good{"send_lat --wait_jfc_timeout -1", HOLDS(c.wait_jfc_timeout_ms == -1)},
        Good{"send_lat --wait_jfc_timeout 0", HOLDS(c.wait_jfc_timeout_ms == 0)},
        Good{"write_bw --page_size 8192", HOLDS(c.page_size == 8192)},
        Good{"write_bw --hugepage_size 2MB", HOLDS(c.huge_pages == HugePages::k2Mb)},
        Good{"write_bw -u --sip a --dip b --dscp 63 --vlan 4095 --sl 15",
             HOLDS(c.dscp == 63 && c.vlan == 4095 && c.sl == 15)},
        Good{"write_bw --bind_ip 127.0.0.1", HOLDS(c.bind_ip == "127.0.0.1")},
        Good{"write_bw --enable_sync_stream", HOLDS(c.sync_stream)},
        Good{"write_bw --bw_unit GB", HOLDS(c.bw_unit == BwUnit::kGigabytes)},
        Good{"write_bw --va 0x100000000", HOLDS(c.va == 0x100000000u)},
        Good{"send_bw --share_jfs", HOLDS(c.share_jfs)},
        Good{"write_bw --min_size 1 --max_size 64", HOLDS(c.random_sizes&& c.max_size == 64)},
        Good{"write_bw -d bonding_0 --aggr_mode balance",
             HOLDS(c.aggr_mode == URMA_AGGR_MODE_BALANCE)},
        Good{"write_bw -d bonding_0 --bond_mode standalone -p 1",
             HOLDS(c.aggr_mode == URMA_AGGR_MODE_STANDALONE)},
        Good{"write_bw -z -o active_backup", HOLDS(c.aggr_mode == URMA_AGGR_MODE_ACTIVE_BACKUP)},
        Good{"write_bw --bond_level port", HOLDS(c.bond_level == "port")},
        Good{"write_bw --stdout", HOLDS(c.log_to_stdout&& c.verbosity > 7)}}));

INSTANTIATE_TEST_SUITE_P(
    Additions, GoodLine,
    testing::ValuesIn(std::vector<Good>{
        Good{"send_lat --format csv", HOLDS(c.format == Format::kCsv)},
        Good{"send_lat --format json", HOLDS(c.format == Format::kJson)},
        Good{"send_lat --thousands --final", HOLDS(c.thousands&& c.final_only)},
        Good{"atomic_lat --poll-always", HOLDS(c.poll_always)},
        Good{"write_bw --poll-always", HOLDS(c.poll_always)},
        Good{"send_lat --accept-forever", HOLDS(c.accept_forever)},
        Good{"send_lat --cpu 1", HOLDS(c.cpu == 1u && !c.server_cpu)},
        Good{"send_lat --loopback --cpu 0,1", HOLDS(c.cpu == 0u && c.server_cpu == 1u)},
        Good{"send_lat --loopback", HOLDS(c.is_client())},
        Good{"send_bw --warmup 100", HOLDS(c.warmup_iterations == 100u && c.warm_up)},
        Good{"write_bw --warmup 0", HOLDS(c.warmup_iterations == 0u && !c.warm_up)},
        Good{"write_bw --window 300", HOLDS(c.window == 300 && c.jfs_depth == 300)},
        Good{"write_bw --window 4", HOLDS(c.window == 4 && c.cq_mod == 4)},
        Good{"send_lat --layout short", HOLDS(c.layout == Layout::kShort && c.inline_size == 2)},
        Good{"read_bw --layout bcopy", HOLDS(c.layout == Layout::kBcopy)},
        Good{"atomic_bw --layout zcopy", HOLDS(c.layout == Layout::kZcopy)},
        Good{"send_lat --percentiles 50,99.9",
             HOLDS(c.percentiles == (std::vector<double>{50, 99.9}))},
        Good{"send_lat --verify", HOLDS(c.verify)},
        Good{"send_lat --test write_bw", HOLDS(c.test == "write_bw" && c.size == 65536)}}));

INSTANTIATE_TEST_SUITE_P(Words, GoodLine,
                         testing::ValuesIn(std::vector<Good>{
                             Good{"write_bw -bLs8",
                                  HOLDS(c.size == 8 && c.lock_free && !c.duplex())},
                             Good{"write_bw -s 8 -s 16", HOLDS(c.size == 16)},
                             Good{"write_bw -L -L", HOLDS(c.lock_free)},
                             Good{"write_bw --iter 9", HOLDS(c.iterations == 9)},
                             Good{"send_bw --enable_cr", HOLDS(c.credit)}}));

class BadLine : public testing::TestWithParam<const char*> {};

// One line with the given value, the allowed ones, and an example.
TEST_P(BadLine, IsRefused) {
  const std::string refusal = refusal_of(GetParam());
  EXPECT_TRUE(refusal.starts_with("given ")) << refusal;
  EXPECT_NE(refusal.find("; allowed: "), std::string::npos) << refusal;
  EXPECT_NE(refusal.find("; example: "), std::string::npos) << refusal;
  EXPECT_EQ(refusal.find('\n'), std::string::npos) << refusal;
}

INSTANTIATE_TEST_SUITE_P(
    Values, BadLine,
    testing::ValuesIn(std::vector<const char*>{
        "",
        "-d urma_shm0",
        "frobnicate",
        "write_bw extra",
        "write_bw --frobnicate",
        "write_bw -t",
        "write_bw -x",
        "write_bw -Lx",
        "write_bw --",
        "write_bw -s",
        "write_bw --size",
        "write_bw -s x",
        "write_bw -s 12k",
        "write_bw -s -5",
        "write_bw -s 0",
        "write_bw -s +5",
        "write_bw -s 99999999999999999999999",
        "write_bw -s 0xfffffffff",
        "write_bw --size=",
        "write_bw -L=1",
        "write_bw --lock_free=1",
        "write_bw -a0",
        "write_bw -a24",
        "write_bw -a 20",
        "write_bw -ax",
        "atomic_lat -A add",
        "write_bw -C 0",
        "write_bw -D 3",
        "write_bw -D x",
        "write_bw -E 32",
        "write_bw -j maybe",
        "write_bw -J 0",
        "write_bw -J 65536",
        "write_bw -K 4",
        "write_bw -n 4",
        "write_bw -n 100000001",
        "write_bw -l 0",
        "write_bw -O 16",
        "write_bw -p 3",
        "write_bw -p RM",
        "write_bw -P 0",
        "write_bw -P 65536",
        "write_bw -Q 0",
        "write_bw -Q 1025",
        "send_bw -r 0",
        "send_bw -R 0",
        "send_bw -R 32769",
        "write_bw -T 0",
        "write_bw -T 15001",
        "write_bw -y0",
        "write_bw -yx",
        "write_bw -y --inf_period_ms 49",
        "write_bw -y --inf_period_ms 75",
        "write_bw --rate_limit 0",
        "write_bw --rate_limit x",
        "write_bw --rate_limit -1",
        "write_bw --rate_limit 1 --rate_units T",
        "write_bw --rate_limit 1 --burst_size 0",
        "write_bw --order_type 5",
        "write_bw --mgmt ub",
        "write_bw --page_size 4097",
        "write_bw --page_size 512",
        "write_bw --hugepage_size 4MB",
        "write_bw --bw_unit TB",
        "write_bw --va x",
        "write_bw --va 0",
        "write_bw --sge_num 0",
        "write_bw --pair_num 0",
        "write_bw --wait_jfc_timeout -2",
        "write_bw --enable_write_dirty 0",
        "write_bw --bond_level both",
        "write_bw -d bonding_0 --aggr_mode fast",
        "write_bw --format xml",
        "write_bw --cpu x",
        "write_bw --cpu 1,",
        "write_bw --warmup x",
        "write_bw --window 0",
        "write_bw --layout long",
        "send_lat --percentiles 0",
        "send_lat --percentiles 101",
        "send_lat --percentiles 50,",
        "send_lat --percentiles 50;60",
        "send_lat --test send",
        "write_bw --en",
        "write_bw --dscp 64",
        "write_bw --retry_num 8",
        "write_bw -d 0123456789012345678901234567890123456789012345678901234567890123"}));

INSTANTIATE_TEST_SUITE_P(Combinations, BadLine,
                         testing::ValuesIn(std::vector<const char*>{
                             "write_bw -A cas",
                             "send_lat -B",
                             "send_lat -N",
                             "send_lat -y",
                             "send_lat -J 2",
                             "send_lat --enable_err_continue",
                             "send_lat --min_size 1 --max_size 2",
                             "send_lat --enable_write_dirty",
                             "send_lat --window 2",
                             "send_lat --enable_sync_stream",
                             "send_lat -l 2 -T 4",
                             "read_lat -r 2",
                             "send_bw -w",
                             "write_lat -w",
                             "atomic_bw --rate_limit 1",
                             "write_bw --rate_units G",
                             "write_bw --burst_size 3",
                             "read_bw --enable_imm",
                             "atomic_bw --enable_imm",
                             "send_bw --enable_notify",
                             "write_bw --enable_notify --enable_imm",
                             "send_lat --enable_credit",
                             "write_bw --enable_credit",
                             "send_bw --enable_credit -p 2",
                             "send_bw --credit_threshold 4",
                             "send_bw --enable_credit --credit_threshold 4 --credit_notify_cnt 5",
                             "write_bw -e",
                             "write_lat -e",
                             "atomic_bw -b -f",
                             "write_bw -f",
                             "write_bw -p 2",
                             "write_bw -p 1 -b",
                             "send_bw -p 1 --share_jfs",
                             "atomic_bw -s 16",
                             "atomic_bw -a",
                             "write_bw -a -s 8",
                             "write_bw -D 8 -n 5",
                             "write_bw -D 8 -a",
                             "send_bw -D 8 -e",
                             "write_bw -D 8 -y",
                             "send_lat -D 4 --warmup 1000",
                             "send_lat -D 4 --percentiles 50",
                             "write_bw --enable_imm -w",
                             "write_bw -y -a",
                             "write_bw -y -n 5",
                             "send_bw -y -B",
                             "write_bw -y -B --enable_imm",
                             "write_bw --inf_period_ms 100",
                             "write_bw -n 9 -l 2",
                             "send_bw -n 9 -r 2",
                             "write_bw -l 200",
                             "write_bw -l 16 -Q 3",
                             "send_bw -r 600",
                             "write_bw -s 3 --sge_num 2",
                             "write_bw -a --sge_num 4",
                             "send_bw --ctp -s 8192",
                             "send_bw --ctp -a13",
                             "write_bw --min_size 5",
                             "write_bw --max_size 5",
                             "write_bw --min_size 9 --max_size 5",
                             "write_bw -s 4 --min_size 1 --max_size 5",
                             "write_bw -s 8 --min_size 1 --max_size 4 --sge_num 2",
                             "write_bw --pair_num 2",
                             "send_lat --pair_num 2 --seg_pre_jetty",
                             "write_bw --pair_num 2 --seg_pre_jetty -J 3",
                             "write_bw --jettys_pre_jfr 2",
                             "write_bw -u",
                             "write_bw -u --sip 10.0.0.1",
                             "write_bw --aggr_mode balance",
                             "write_bw -d bonding_0 --bond_level iodie",
                             "write_bw --bond_level port --single_path",
                             "write_bw --window 100 -T 50",
                             "write_bw --window 4 -l 8",
                             "read_bw --layout short",
                             "atomic_bw --layout bcopy",
                             "write_bw -I 8 --layout zcopy",
                             "send_bw --percentiles 50",
                             "write_bw --loopback -S h",
                             "write_bw --loopback --accept-forever",
                             "write_bw --accept-forever -S h",
                             "write_bw --loopback --pair_num 1 --seg_pre_jetty",
                             "write_bw --cpu 0,1",
                             "write_bw --loopback --jetty_id 5",
                             "write_bw --loopback --va 0x100000000",
                             "write_bw --stdout --format json",
                             "send_bw --poll-always",
                             "read_lat --poll-always -e",
                             "write_bw --verify --enable_write_dirty"}));

TEST(PerftestOptions, DeviceMayBeLeftOut) {
  EXPECT_EQ(parse_options({"send_lat"}).config.value().device, "");
  EXPECT_THROW(parse_options({"send_lat", "-d", ""}), UsageError);
}

TEST(PerftestOptions, EveryRefusalIsOneLine) {
  try {
    parse_options({"send_lat", "-d", "urma_shm0", "-n", "5\n\x1b[2J"});
    ADD_FAILURE() << "was taken";
  } catch (const UsageError& error) {
    const std::string line = error.what();
    EXPECT_NE(line.find("-n '5"), std::string::npos) << line;
    EXPECT_TRUE(std::none_of(line.begin(), line.end(), [](char c) { return c >= 0 && c < ' '; }))
        << line;
  }
}

TEST(PerftestOptions, HelpAndVersionWorkInAnyPlace) {
  for (const char* line : {"-h", "--help", "send_lat -h", "send_lat -n 9 --help", "send_lat -Lh"}) {
    const Parsed parsed = parse(line);
    EXPECT_FALSE(parsed.config) << line;
    EXPECT_NE(parsed.text.find("usage: urma_perftest TEST"), std::string::npos) << line;
    EXPECT_NE(parsed.text.find("--jfs_post_list"), std::string::npos) << line;
  }
  for (const char* line : {"-V", "--version", "send_lat -V"}) {
    const Parsed parsed = parse(line);
    EXPECT_FALSE(parsed.config) << line;
    EXPECT_TRUE(parsed.text.starts_with("urma_perftest ")) << line;
  }
}

TEST(PerftestOptions, ValueOfAnotherOptionIsNotTakenForHelp) {
  EXPECT_EQ(config_of("send_lat -S -h").server, "-h");
}

TEST(PerftestOptions, BufferHoldsAllSizes) {
  EXPECT_EQ(config_of("write_bw -a4").buffer_size(), kAllSizesBuffer);
  EXPECT_EQ(config_of("write_bw -s 100").buffer_size(), 100u);
}

}  // namespace
}  // namespace perftest
