// SPDX-License-Identifier: MIT
//
// The names of the constants that programs print on errors.

#include <gtest/gtest.h>

#include <cerrno>
#include <set>
#include <string>

#include "urma.hpp"
#include "urma_types_str.h"

namespace {

const std::string kNone = "INVALID";

template <typename Enum, typename Name>
std::set<std::string> names(Name name, int last) {
  std::set<std::string> found;
  for (int value = 0; value <= last; ++value) found.insert(name(static_cast<Enum>(value)));
  found.erase(kNone);
  return found;
}

TEST(TypesStr, EveryCompletionStatusHasADistinctText) {
  const auto found = names<urma_cr_status_t>(urma_cr_status_to_string, 40);
  EXPECT_EQ(found.size(), URMA_CR_REM_DATA_POISON + 1u);
  EXPECT_STREQ(urma_cr_status_to_string(URMA_CR_REM_ACCESS_ABORT_ERR), "remote access refused");
  EXPECT_EQ(urma_cr_status_to_string(static_cast<urma_cr_status_t>(-1)), kNone);
}

TEST(TypesStr, EveryStatusHasADistinctText) {
  std::set<std::string> found;
  for (const int status : {URMA_SUCCESS, URMA_EAGAIN, URMA_ENOMEM, URMA_ENOPERM, URMA_ETIMEOUT,
                           URMA_EINVAL, URMA_EEXIST, URMA_EINPROGRESS, URMA_FAIL}) {
    found.insert(urma_status_to_string(status));
  }
  EXPECT_EQ(found.size(), 9u);
  EXPECT_EQ(found.count(kNone), 0u);
  EXPECT_EQ(urma_status_to_string(-1), kNone);
}

TEST(TypesStr, EveryOpcodeHasAName) {
  EXPECT_EQ(names<urma_opcode_t>(urma_opcode_to_string, URMA_OPC_LAST).size(), 17u);
  EXPECT_STREQ(urma_opcode_to_string(URMA_OPC_WRITE_IMM), "WRITE_IMM");
}

TEST(TypesStr, EveryEventHasAName) {
  const auto found = names<urma_async_event_type_t>(urma_async_event_type_to_string, 40);
  EXPECT_EQ(found.size(), URMA_EVENT_ELR_DONE + 1u);
  EXPECT_STREQ(urma_async_event_type_to_string(URMA_EVENT_PORT_DOWN), "PORT_DOWN");
}

template <typename Status>
std::string thrown(Status status) {
  try {
    urma::check(status, "write");
  } catch (const urma::Failure& failure) {
    EXPECT_EQ(failure.status(), status);
    return failure.what();
  }
  return "";
}

// 8 is also an errno number, for which strerror says "Exec format error".
TEST(TypesStr, FailureNamesCompletionsAndCalls) {
  EXPECT_EQ(thrown(URMA_CR_SUCCESS), "");
  EXPECT_EQ(thrown(URMA_CR_REM_ACCESS_ABORT_ERR), "write: remote access refused");
  EXPECT_EQ(thrown(URMA_SUCCESS), "");
  EXPECT_EQ(thrown(URMA_EINVAL), "write: Invalid argument");
}

}  // namespace
