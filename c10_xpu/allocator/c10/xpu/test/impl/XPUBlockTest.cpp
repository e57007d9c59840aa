#include <c10/xpu/test/impl/XPUTestUtil.h>

#include <c10/xpu/impl/XPUBlock.h>

#include <vector>

using namespace c10::xpu::impl;
using namespace c10::xpu::test;

TEST(XPUBlockTest, AFreeBlockTakesThePlaceOfAnother) {
  // In the same bin, and in another one.
  for (const size_t size : {6 * kMinBlockSize, kSmallSize}) {
    FreeBlocks bins(/*bin_shift=*/16);
    Block small;
    Block old;
    Block by;
    small.size = 2 * kMinBlockSize;
    old.size = 4 * kMinBlockSize;
    by.size = size;
    bins.insert(&small);
    bins.insert(&old);
    EXPECT_EQ(bins.find(3 * kMinBlockSize), &old);
    bins.erase(&old);
    bins.insert(&by);
    EXPECT_EQ(bins.find(3 * kMinBlockSize), &by);
    EXPECT_EQ(bins.find(kMinBlockSize), &small);
    bins.erase(&small);
    EXPECT_EQ(bins.find(kMinBlockSize), &by);
    bins.erase(&by);
    EXPECT_EQ(bins.find(kMinBlockSize), nullptr);
  }
}

TEST(XPUBlockTest, ThreadsFindWhatTheyInsert) {
  constexpr size_t kThreads = 4;
  constexpr size_t kBlocks = 1000; // of each
  BlockTable table;
  std::vector<Block> blocks(kThreads * kBlocks);
  inThreads(kThreads, [&](size_t thread) {
    for (size_t i = thread; i < blocks.size(); i += kThreads) {
      blocks[i].ptr = reinterpret_cast<char*>((i + 1) * kMinBlockSize);
      table.insert(&blocks[i]);
      EXPECT_EQ(table.find(blocks[i].ptr), &blocks[i]);
    }
  });
  for (const auto& block : blocks) {
    EXPECT_EQ(table.find(block.ptr), &block);
  }
}
