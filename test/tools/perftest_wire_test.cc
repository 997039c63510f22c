// SPDX-License-Identifier: MIT
//
// The configuration block of urma_perftest against the documented offsets, and the effect of two
// different blocks.

#include <gtest/gtest.h>

#include <cstring>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "tools/perftest/options.h"
#include "tools/perftest/wire.h"

namespace perftest {
namespace {

Config config_of(const std::string& line) {
  std::istringstream text(line);
  std::vector<std::string> words;
  for (std::string word; text >> word;) words.push_back(word);
  words.insert(words.begin() + 1, {"-d", "urma_shm0"});
  return parse_options(words).config.value();
}

struct Place {
  const char* line;
  size_t offset;
  size_t size;
  uint64_t value;
};

class PerftestPlace : public testing::TestWithParam<Place> {};

TEST_P(PerftestPlace, IsAsDocumented) {
  const Place& place = GetParam();
  const Block block = encode(config_of(place.line));
  uint64_t value = 0;
  std::memcpy(&value, block.data() + place.offset, place.size);
  EXPECT_EQ(value, place.value) << place.line << " at " << place.offset;
}

INSTANTIATE_TEST_SUITE_P(
    Test, PerftestPlace,
    testing::Values(Place{"read_lat", 0, 4, 0}, Place{"write_lat", 0, 4, 1},
                    Place{"send_lat", 0, 4, 2}, Place{"atomic_lat", 0, 4, 3},
                    Place{"read_bw", 0, 4, 4}, Place{"atomic_bw", 0, 4, 7},
                    Place{"read_bw", 4, 4, 1}, Place{"read_bw --eid_idx 5", 8, 4, 5},
                    Place{"send_bw", 12, 4, 2}, Place{"send_bw -a", 16, 1, 1},
                    Place{"atomic_bw -A faa", 20, 4, 1}, Place{"send_bw -C 99", 24, 4, 99},
                    Place{"send_bw -D 7", 92, 4, 7}, Place{"send_bw -e", 96, 1, 1},
                    Place{"send_bw", 100, 4, 1}, Place{"send_bw -D 7", 100, 4, 2},
                    Place{"send_bw -y", 100, 4, 4}, Place{"send_bw -I 33", 104, 4, 33},
                    Place{"send_bw -J 3", 108, 4, 3}, Place{"send_bw -K 1", 112, 4, 1},
                    Place{"send_bw --ctp", 116, 4, 1}, Place{"send_bw -n 77", 120, 8, 77},
                    Place{"send_bw -N", 136, 1, 1}, Place{"send_bw -l 4", 140, 4, 4},
                    Place{"send_bw", 144, 4, 1}, Place{"send_bw -b", 144, 4, 0},
                    Place{"send_bw -Q 5", 148, 4, 5}, Place{"send_bw -r 4", 152, 4, 4},
                    Place{"send_bw -R 64", 156, 4, 64}, Place{"send_bw -s 100", 160, 4, 100},
                    Place{"send_bw -a", 160, 4, 8388608}, Place{"write_lat -a3", 160, 4, 8388608},
                    Place{"write_bw -y", 120, 8, 50000}, Place{"write_bw -y -l 3", 120, 8, 50000},
                    Place{"write_bw -D 5", 120, 8, 0}, Place{"send_bw -T 50", 164, 4, 50},
                    Place{"send_bw -p 2", 168, 4, 4}, Place{"send_bw --order_type 2", 172, 4, 2},
                    Place{"send_bw --bw_unit GB", 176, 4, 2}));

INSTANTIATE_TEST_SUITE_P(
    Rest, PerftestPlace,
    testing::Values(
        Place{"send_bw --min_size 3 --max_size 9", 180, 4, 3},
        Place{"send_bw --min_size 3 --max_size 9", 184, 4, 9},
        Place{"send_bw --min_size 3 --max_size 9", 188, 1, 1},
        Place{"send_bw --page_size 8192", 200, 8, 8192}, Place{"send_bw -b -f", 208, 1, 1},
        Place{"send_bw -F", 209, 1, 1}, Place{"read_bw -w", 210, 1, 1},
        Place{"read_bw -B", 211, 1, 1}, Place{"read_bw -c", 212, 1, 1},
        Place{"read_bw -y7", 216, 4, 7}, Place{"read_bw", 220, 4, 2000},
        Place{"read_bw -a20", 224, 4, 20}, Place{"send_bw", 224, 4, 12},
        Place{"read_bw -E 9", 228, 1, 9}, Place{"read_bw -L", 229, 1, 1},
        Place{"read_bw", 230, 1, 255}, Place{"read_bw -j true", 231, 1, 1},
        Place{"read_bw -J 4 --jettys_pre_jfr 2", 232, 4, 2},
        Place{"read_bw --enable_ipv6", 256, 1, 1}, Place{"read_bw", 258, 2, 21115},
        Place{"read_bw --rate_limit 0.5", 272, 1, 1},
        Place{"read_bw --rate_limit 0.5", 280, 8, 0x3fe0000000000000},
        Place{"read_bw --rate_limit 1 --burst_size 3", 288, 4, 3}, Place{"read_bw", 292, 4, 1},
        Place{"send_bw --enable_credit", 304, 1, 1}, Place{"send_bw --enable_credit", 308, 4, 384},
        Place{"send_bw --enable_credit", 312, 4, 128}, Place{"read_bw --seg_pre_jetty", 316, 1, 1},
        Place{"send_bw --enable_imm", 317, 1, 1}, Place{"write_bw --enable_notify", 318, 1, 1},
        Place{"read_bw --enable_err_continue", 319, 1, 1},
        Place{"read_bw --enable_user_tp", 320, 1, 1}, Place{"read_bw --oor_en", 321, 1, 1},
        Place{"read_bw --spray_en", 322, 1, 1}, Place{"read_bw --cc_en", 323, 1, 1},
        Place{"read_bw --cc_alg 4", 324, 4, 4}, Place{"read_bw", 328, 4, 7},
        Place{"read_bw", 332, 4, 15}, Place{"read_bw --sge_num 2", 336, 4, 2},
        Place{"read_bw --enable_write_dirty", 340, 1, 1}, Place{"read_bw", 344, 4, 50},
        Place{"read_bw --pair_num 2 --seg_pre_jetty", 348, 4, 2},
        Place{"read_bw --pair_num 2 --seg_pre_jetty", 352, 1, 1}));

TEST(PerftestWire, NameOfTheDeviceIsAt28) {
  const Block block = encode(config_of("read_bw"));
  EXPECT_STREQ(reinterpret_cast<const char*>(block.data()) + 28, "urma_shm0");
}

// The results of two sides with these lines, and the messages of each.
struct Talk {
  std::string server;
  std::string client;
  bool extended = false;
};

std::string talk_alone(const std::string& line, Exchange& exchange) {
  try {
    negotiate(config_of(line), exchange);
    return "";
  } catch (const RunError& error) {
    return error.what();
  }
}

Talk talk(const std::string& server, const std::string& client) {
  auto ends = Exchange::make_pair();
  Talk result;
  std::thread thread([&] { result.server = talk_alone(server, ends.first); });
  result.client = talk_alone(client, ends.second);
  thread.join();
  result.extended = ends.first.extended() && ends.second.extended();
  return result;
}

TEST(PerftestWire, AgreeingSidesReportNoDifference) {
  const Talk result = talk("send_bw -s 64 -T 5 -L", "send_bw -s 64 -T 9 -S host");
  EXPECT_EQ(result.server, "");
  EXPECT_EQ(result.client, "");
  EXPECT_TRUE(result.extended);
}

struct Difference {
  const char* server;
  const char* client;
  const char* name;
};

class PerftestDifference : public testing::TestWithParam<Difference> {};

TEST_P(PerftestDifference, IsNamedByBoth) {
  const Talk result = talk(GetParam().server, GetParam().client);
  const std::string line = "Config inconsistent[" + std::string(GetParam().name) + "]: this side";
  EXPECT_NE(result.server.find(line), std::string::npos) << result.server;
  EXPECT_NE(result.client.find(line), std::string::npos) << result.client;
}

INSTANTIATE_TEST_SUITE_P(
    All, PerftestDifference,
    testing::Values(Difference{"send_bw", "send_lat", "cmd"},
                    Difference{"read_bw -a", "read_bw", "all"},
                    Difference{"atomic_bw", "atomic_bw -A faa", "atomic_type"},
                    Difference{"read_bw -D 5", "read_bw -D 6", "duration"},
                    Difference{"read_bw -D 5", "read_bw", "time_type"},
                    Difference{"read_bw -J 2", "read_bw", "jettys"},
                    Difference{"read_bw -K 1", "read_bw", "token_policy"},
                    Difference{"read_bw -n 9", "read_bw", "iters"},
                    Difference{"read_bw -b", "read_bw", "jetty_mode"},
                    Difference{"read_bw -s 9", "read_bw", "size"},
                    Difference{"read_bw -p 1", "read_bw", "trans_mode"},
                    Difference{"read_bw -b -f", "read_bw -b", "use_flat_api"},
                    Difference{"read_bw -a3", "read_bw -a4", "order"},
                    Difference{"read_bw --enable_ipv6", "read_bw", "enable_ipv6"},
                    Difference{"send_bw --enable_credit", "send_bw", "enable_credit"},
                    Difference{"read_bw --seg_pre_jetty", "read_bw", "seg_pre_jetty"},
                    Difference{"send_bw --enable_imm", "send_bw", "enable_imm"},
                    Difference{"read_bw -y5", "read_bw -y", "inf_period_ms"},
                    Difference{"read_bw --enable_err_continue", "read_bw", "enable_err_continue"},
                    Difference{"read_bw --enable_user_tp", "read_bw", "enable_user_tp"},
                    Difference{"read_bw --sge_num 2", "read_bw", "sge_num"},
                    Difference{"read_bw --enable_write_dirty=9", "read_bw", "write_dirty_period"},
                    Difference{"read_bw --verify", "read_bw", "verify"},
                    Difference{"read_bw --warmup 5", "read_bw", "warmup"},
                    Difference{"read_bw -B", "read_bw", "bidirection"},
                    Difference{"write_bw --enable_notify", "write_bw", "enable_notify"},
                    Difference{"write_bw --min_size 1 --max_size 2", "write_bw", "min_size"}));

TEST(PerftestWire, ValuesOfBothSidesAreShown) {
  EXPECT_EQ(talk("read_bw -s 9", "read_bw -s 10").client,
            "Config inconsistent[size]: this side has 10, the other 9; give both the same -s");
}

TEST(PerftestWire, PairsNeedNotHaveTheSameJettys) {
  EXPECT_EQ(talk("read_bw --pair_num 1 --seg_pre_jetty", "read_bw -J 3 --seg_pre_jetty").server,
            "");
}

// UMDK's binary has a descriptor and a pointer where this tool has its mark.
TEST(PerftestWire, PeerWithoutMarkGetsNoExtension) {
  auto ends = Exchange::make_pair();
  Block theirs = encode(config_of("read_bw"));
  const uint32_t descriptor = 7;
  const uint64_t pointer = 0x7f001234567;
  std::memcpy(theirs.data() + 260, &descriptor, sizeof(descriptor));
  std::memcpy(theirs.data() + 264, &pointer, sizeof(pointer));
  EXPECT_FALSE(is_extended(theirs));
  std::thread peer([&] {
    Block ours = {};
    ends.second.sync_data(theirs.data(), ours.data(), kBlockSize);
    ends.second.sync_time("Start test");
  });
  negotiate(config_of("read_bw --verify"), ends.first);
  EXPECT_FALSE(ends.first.extended());
  ends.first.sync_time("Start test");
  peer.join();
}

TEST(PerftestWire, PeerThatSendsLessIsAnError) {
  auto ends = Exchange::make_pair();
  std::optional<Exchange> peer(std::move(ends.second));
  std::thread hasty([&] {
    char half[100] = {};
    peer->sync_data(half, half, sizeof(half));
    peer.reset();
  });
  EXPECT_THROW(negotiate(config_of("read_bw"), ends.first), RunError);
  hasty.join();
}

}  // namespace
}  // namespace perftest
