// SPDX-License-Identifier: MIT
#include "urma/providers/verbs/registrations.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "test/verbs/device_fixture.h"

namespace urma::verbs {
namespace {

constexpr size_t kBytes = 8192;
constexpr uint32_t kTokenId = 77, kToken = 4711;
constexpr uint32_t kReadWrite = URMA_ACCESS_READ | URMA_ACCESS_WRITE;
constexpr int kRemote = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;

class RegistrationsTest : public DeviceFixture {
 protected:
  ~RegistrationsTest() override { ::munmap(memory_, kBytes); }

  void start(const FakeDeviceOptions& options) {
    device_ = open(options);
    registrations_.emplace(device_.get(), &table_);
  }
  struct Granted : KeyedSegment {
    Granted(void* memory, uint32_t rights) : KeyedSegment{} {
      base = reinterpret_cast<uint64_t>(memory);
      len = kBytes;
      token_id_value = kTokenId;
      token_policy = URMA_TOKEN_PLAIN_TEXT;
      token = {kToken};
      access = rights;
      device = "urma_fake0";
    }
  };
  Granted segment(uint32_t access) const { return {memory_, access}; }
  bool revoke(const Segment& of) {
    return registrations_->revoke(of.eid, {kTokenId, kToken}, of.base, of.len);
  }
  // What requests on the short path find.
  std::optional<uint32_t> short_key(const Segment& of) {
    urma_sge_t piece = {};
    piece.addr = of.base + of.len - 1;
    piece.len = 1;
    piece.tseg = const_cast<Segment*>(&of);
    uint32_t lkey = 0;
    const LocalKeys& keys = registrations_->keys();
    if (keys.own_segment(piece, 1, &lkey) == nullptr) return std::nullopt;
    uint32_t none = 0;
    EXPECT_EQ(LocalKeys().own_segment(piece, 1, &none), nullptr) << "of another context";
    EXPECT_EQ(keys.own_segment(piece, 2, &none), nullptr) << "past the end";
    piece.addr = of.base - 1;
    EXPECT_EQ(keys.own_segment(piece, 1, &none), nullptr) << "before the start";
    return lkey;
  }
  // The access of the device for requests of this process that name the segment, 0: none.
  int own_access(const Segment& of) {
    uint32_t lkey = 0;
    const bool stands = registrations_->keys().find(of.ref, &lkey);
    EXPECT_EQ(short_key(of), stands ? std::optional(lkey) : std::nullopt);
    return stands ? fake_.access_of_lkey(lkey) : 0;
  }
  void end(KeyedSegment* segment) {
    registrations_->withdraw(segment);
    registrations_->remove(segment->ref);
  }

  void* memory_ =
      ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  SegmentTable table_;
  std::unique_ptr<Device> device_;
  std::optional<Registrations> registrations_;
};

TEST_F(RegistrationsTest, ASegmentIsRegisteredOnce) {
  start({.has_rereg = true});
  fake_.set_locked_limit(kBytes);
  const uint64_t before = fake_.calls("reg_mr");
  for (const uint32_t access : {0U, uint32_t{URMA_ACCESS_READ}, kReadWrite}) {
    Granted granted = segment(access);
    registrations_->enter(&granted);
    EXPECT_EQ(fake_.locked_bytes(), kBytes);
    EXPECT_EQ(registrations_->rkey(granted.ref).has_value(), access != 0);
    EXPECT_NE(own_access(granted) & IBV_ACCESS_LOCAL_WRITE, 0);
    end(&granted);
    EXPECT_EQ(fake_.locked_bytes(), 0U);
    EXPECT_EQ(own_access(granted), 0);
  }
  // One was used to test the device.
  EXPECT_EQ(fake_.calls("reg_mr"), before + 4);
}

TEST_F(RegistrationsTest, FailedRegistrationLeaksNothing) {
  start({});
  fake_.set_locked_limit(kBytes - 1);
  Granted granted = segment(kReadWrite);
  const auto [status, text] = failure_of([&] { registrations_->enter(&granted); });
  EXPECT_EQ(status, URMA_ENOMEM);
  EXPECT_NE(text.find("ulimit -l"), std::string::npos) << text;
  GrantError error;
  EXPECT_FALSE(table_.grant({}, kTokenId, granted.base, kBytes, {kToken}, &error));
  EXPECT_EQ(fake_.locked_bytes(), 0U);
}

// Requests in flight continue: they name the same key.
TEST_F(RegistrationsTest, RightsAreRevokedInPlaceIfTheDeviceCan) {
  start({.has_rereg = true});
  fake_.set_locked_limit(kBytes);
  Granted granted = segment(kReadWrite);
  registrations_->enter(&granted);
  const uint32_t rkey = registrations_->rkey(granted.ref).value();
  EXPECT_NE(fake_.access_of_rkey(rkey) & kRemote, 0);
  uint32_t before = 0, after = 0;
  ASSERT_TRUE(registrations_->keys().find(granted.ref, &before));
  EXPECT_TRUE(revoke(granted));
  EXPECT_EQ(fake_.access_of_rkey(rkey) & kRemote, 0);
  EXPECT_FALSE(registrations_->rkey(granted.ref));
  ASSERT_TRUE(registrations_->keys().find(granted.ref, &after));
  EXPECT_EQ(after, before);
  EXPECT_NE(own_access(granted) & IBV_ACCESS_LOCAL_WRITE, 0);
  EXPECT_FALSE(revoke(granted));
  end(&granted);
}

// Also there: the peers have a region of their own.
TEST_F(RegistrationsTest, WithoutReregPeersHaveASeparateRegion) {
  start({});
  Granted granted = segment(kReadWrite);
  registrations_->enter(&granted);
  EXPECT_EQ(fake_.locked_bytes(), 2 * kBytes);
  const uint32_t rkey = registrations_->rkey(granted.ref).value();
  uint32_t before = 0, after = 0;
  ASSERT_TRUE(registrations_->keys().find(granted.ref, &before));
  EXPECT_TRUE(revoke(granted));
  EXPECT_EQ(fake_.access_of_rkey(rkey), 0);
  EXPECT_FALSE(registrations_->rkey(granted.ref));
  ASSERT_TRUE(registrations_->keys().find(granted.ref, &after));
  EXPECT_EQ(after, before);
  EXPECT_EQ(own_access(granted), IBV_ACCESS_LOCAL_WRITE);
  EXPECT_EQ(fake_.locked_bytes(), kBytes);
  end(&granted);
  EXPECT_EQ(fake_.locked_bytes(), 0U);
}

// A device with that feature may still fail; then another region takes its place.
TEST_F(RegistrationsTest, TheOldRegionIsFreedForTheNewOne) {
  start({.has_rereg = true});
  fake_.set_locked_limit(kBytes);
  Granted granted = segment(URMA_ACCESS_READ);
  registrations_->enter(&granted);
  const uint32_t rkey = registrations_->rkey(granted.ref).value();
  fake_.fail("rereg_mr", ENOMEM);
  EXPECT_TRUE(revoke(granted));
  EXPECT_EQ(fake_.access_of_rkey(rkey), 0);
  EXPECT_EQ(own_access(granted), IBV_ACCESS_LOCAL_WRITE);
  end(&granted);
}

// Better no key than one that still admits peers.
TEST_F(RegistrationsTest, TheKeyIsRevokedEvenWithoutMemory) {
  start({.has_rereg = true});
  Granted granted = segment(kReadWrite);
  registrations_->enter(&granted);
  const uint32_t rkey = registrations_->rkey(granted.ref).value();
  fake_.set_locked_limit(1);
  fake_.fail("rereg_mr", ENOMEM);
  EXPECT_TRUE(revoke(granted));
  EXPECT_EQ(fake_.access_of_rkey(rkey), 0);
  EXPECT_EQ(own_access(granted), 0);
  EXPECT_EQ(fake_.locked_bytes(), 0U);
  end(&granted);
}

// Peers may write to the sink of a READ, but are not granted that.
TEST_F(RegistrationsTest, IwarpKeepsTheSinkOfReads) {
  start({.iwarp = true});
  Granted granted = segment(URMA_ACCESS_READ);
  registrations_->enter(&granted);
  const uint32_t rkey = registrations_->rkey(granted.ref).value();
  const int sink = own_access(granted);
  EXPECT_EQ(sink, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  EXPECT_TRUE(revoke(granted));
  EXPECT_EQ(fake_.access_of_rkey(rkey), 0);
  EXPECT_EQ(own_access(granted), sink);
  end(&granted);
}

}  // namespace
}  // namespace urma::verbs
