// SPDX-License-Identifier: MIT
//
// Lists for tools are bounded before they are copied.
#include <gtest/gtest.h>

#include <vector>

#include "test/unit/shm_harness.h"
#include "urma/base/error.h"

namespace urma::shm {
namespace {

using ListingTest = urma_test::ProcessTest;

// 0 if the list was made.
template <typename List>
int status_of_list(const List& list) {
  try {
    list();
  } catch (const Error& error) {
    return error.status();
  }
  return 0;
}

TEST_F(ListingTest, ListOfQueuesIsBounded) {
  Node node;
  node.make_jfr(node.make_jfc());
  node.make_jfc();
  const SegmentInspector& inspector = *node.transport();
  std::vector<urma_ext_queue_t> queues;
  EXPECT_EQ(status_of_list([&] { inspector.list_queues(2, &queues); }), URMA_ENOMEM);
  EXPECT_TRUE(queues.empty());
  EXPECT_EQ(status_of_list([&] { inspector.list_queues(3, &queues); }), 0);
  EXPECT_EQ(queues.size(), 3u);
  // With several providers, the next one gets the remaining space.
  EXPECT_EQ(status_of_list([&] { inspector.list_queues(5, &queues); }), URMA_ENOMEM);
  EXPECT_EQ(queues.size(), 3u);
}

TEST_F(ListingTest, ListOfSegmentsIsBounded) {
  Node owner, importer;
  Pages first(4096), second(4096);
  owner.add(first.data(), 4096);
  const urma_seg_t described = owner.add(second.data(), 4096)->seg;
  const SegmentInspector &of_owner = *owner.transport(), &of_importer = *importer.transport();
  std::vector<urma_ext_segment_t> segments;
  EXPECT_EQ(status_of_list([&] { of_owner.list_segments(1, &segments); }), URMA_ENOMEM);
  EXPECT_LE(segments.size(), 1u);
  segments.clear();
  EXPECT_EQ(status_of_list([&] { of_owner.list_segments(2, &segments); }), 0);
  EXPECT_EQ(segments.size(), 2u);
  importer.import(described);
  EXPECT_EQ(status_of_list([&] { of_importer.list_segments(2, &segments); }), URMA_ENOMEM);
  EXPECT_EQ(segments.size(), 2u);
  EXPECT_EQ(status_of_list([&] { of_importer.list_segments(3, &segments); }), 0);
  EXPECT_EQ(segments.size(), 3u);
}

}  // namespace
}  // namespace urma::shm
