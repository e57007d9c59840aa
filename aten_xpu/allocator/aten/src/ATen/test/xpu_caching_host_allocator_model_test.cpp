#include <ATen/test/xpu_interposed_calls.h>
#include <c10/xpu/test/impl/XPUTestUtil.h>

#include <ATen/xpu/CachingHostAllocator.h>
#include <c10/util/irange.h>
#include <c10/xpu/XPUFunctions.h>
#include <c10/xpu/XPUStream.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <iterator>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

// Random operations beside a model that knows of each block whether it is in
// use, which streams may still write to it and which certainly do not.
// TORCH_XPU_TEST_SEED repeats one run.

using namespace at::xpu;
using namespace at::xpu::test;
using namespace c10::xpu::test;
using c10::DataPtr;
using c10::DeviceIndex;
using c10::xpu::XPUStream;

namespace {

constexpr int kStreams = 3;
constexpr size_t kMaxHeld = 2;

struct ModelBlock {
  size_t size = 0;
  bool in_use = true;
  // The streams that use it. Of a free block: those that may still do, since
  // they were not synchronized after the free.
  std::set<int> used_by;
  // Of a free block: the streams that were held at the free and still are, and
  // so certainly use it.
  std::set<int> busy;
  // Whether the host has written `mark` to all of it, and no stream anything.
  bool marked = false;
  uint8_t mark = 0;
};

class Model {
 public:
  explicit Model(uint32_t seed) : random_(seed) {
    for (const auto i : c10::irange(kStreams)) {
      const auto device = i % c10::xpu::device_count();
      streams_.push_back(
          c10::xpu::getStreamFromPool(false, static_cast<DeviceIndex>(device)));
    }
    calls().before_free = [this](void* ptr) { givenBack(ptr); };
  }

  void step() {
    const auto op = random_() % 32;
    op < 2        ? hold()
        : op < 6  ? letGo()
        : op < 10 ? synchronize()
        : op < 11 ? emptyCache()
        : op < 17 ? use()
        : op < 23 ? free()
                  : allocate();
  }

  void check() {
    size_t reserved = 0;
    size_t in_use = 0;
    for (const auto& [ptr, block] : blocks_) {
      reserved += block.size;
      in_use += block.in_use ? block.size : 0;
    }
    const auto stats = CachingHostAllocator_getStats();
    ASSERT_EQ(stats.reserved_bytes, reserved);
    ASSERT_EQ(stats.in_use_bytes(), in_use);
    ASSERT_EQ(stats.num_host_alloc - stats.num_host_free, blocks_.size());
    for (const auto& block : blocks_) {
      ASSERT_TRUE(isIntact(block)) << "another stream wrote to a block";
    }
  }

  void finish() {
    while (!gates_.empty()) {
      letGo();
    }
    while (!owned_.empty()) {
      free();
    }
    for (const auto i : c10::irange(kStreams)) {
      synchronize(i);
    }
    emptyCache();
    EXPECT_TRUE(blocks_.empty());
    clearHooks();
  }

 private:
  bool isHeld(int stream) const {
    return std::any_of(gates_.begin(), gates_.end(), [&](const auto& gate) {
      return gate.first == stream;
    });
  }

  static bool isReady(const ModelBlock& block) {
    return !block.in_use && block.used_by.empty();
  }

  static bool isIntact(const std::pair<void* const, ModelBlock>& entry) {
    const auto& block = entry.second;
    const auto* bytes = static_cast<const uint8_t*>(entry.first);
    return !block.in_use || !block.marked ||
        (bytes[0] == block.mark && bytes[block.size - 1] == block.mark);
  }

  void allocate() {
    const size_t size = 1 + random_() % (size_t(512) << (random_() % 6));
    // A block that is certainly ready, of the right size, must be taken.
    const bool fits =
        std::any_of(blocks_.begin(), blocks_.end(), [size](const auto& entry) {
          const auto& block = entry.second;
          return isReady(block) && block.size >= size &&
              (block.size < 2 * size || block.size == 512);
        });
    // Errors lose no block: not that of the first system allocation, by which
    // the cache is emptied, and not those of queries.
    const bool query_fails = random_() % 8 == 0;
    if (query_fails) {
      calls().before_query = &throwInjected;
    }
    calls().failing_allocations = random_() % 16 == 0 ? 1 : 0;
    const int allocations = calls().allocations;
    DataPtr data = HostAlloc(size);
    const bool is_new = calls().allocations != allocations;
    calls().before_query = nullptr;
    calls().failing_allocations = 0;
    EXPECT_FALSE(fits && is_new && !query_fails);

    auto& block = blocks_[data.get()];
    if (is_new) {
      EXPECT_EQ(block.size, 0) << "a block twice";
      block.size = calls().last_allocation;
    }
    EXPECT_GE(block.size, size);
    EXPECT_TRUE(is_new || !block.in_use) << "a block in use";
    EXPECT_TRUE(block.busy.empty()) << "a block that a stream uses";
    block.in_use = true;
    block.used_by.clear();
    block.marked = true;
    block.mark = static_cast<uint8_t>(random_());
    std::memset(data.get(), block.mark, block.size);
    owned_.push_back(std::move(data));
  }

  DataPtr* pickOwned() {
    return owned_.empty() ? nullptr : &owned_[random_() % owned_.size()];
  }

  void use() {
    DataPtr* data = pickOwned();
    if (!data) {
      return;
    }
    auto& block = blocks_[data->get()];
    const auto stream = static_cast<int>(random_() % kStreams);
    const auto& xpu_stream = streams_[static_cast<size_t>(stream)];
    xpu_stream.queue().memset(data->get(), 0xff, block.size);
    const auto offset = static_cast<ptrdiff_t>(random_() % block.size);
    EXPECT_TRUE(CachingHostAllocator_recordEvent(
        static_cast<char*>(data->get()) + offset, nullptr, xpu_stream));
    block.used_by.insert(stream);
    block.marked = false;
  }

  void free() {
    DataPtr* data = pickOwned();
    if (!data) {
      return;
    }
    auto& block = blocks_[data->get()];
    block.in_use = false;
    std::copy_if(
        block.used_by.begin(),
        block.used_by.end(),
        std::inserter(block.busy, block.busy.end()),
        [this](int stream) { return isHeld(stream); });
    std::swap(*data, owned_.back());
    owned_.pop_back();
  }

  void hold() {
    const auto stream = static_cast<int>(random_() % kStreams);
    if (gates_.size() < kMaxHeld && !isHeld(stream)) {
      gates_.emplace_back(
          stream,
          std::make_unique<Gate>(streams_[static_cast<size_t>(stream)]));
    }
  }

  // See Gate for the order.
  void letGo() {
    if (!gates_.empty()) {
      const int stream = gates_.front().first;
      gates_.front().second->finish();
      gates_.pop_front();
      synchronize(stream);
    }
  }

  void synchronize() {
    const auto stream = static_cast<int>(random_() % kStreams);
    if (!isHeld(stream)) {
      synchronize(stream);
    }
  }

  void synchronize(int stream) {
    streams_[static_cast<size_t>(stream)].synchronize();
    for (auto& entry : blocks_) {
      // Of a block in use the barrier is yet to come.
      if (!entry.second.in_use) {
        entry.second.used_by.erase(stream);
        entry.second.busy.erase(stream);
      }
    }
  }

  void emptyCache() {
    CachingHostAllocator_emptyCache();
    for (const auto& [ptr, block] : blocks_) {
      EXPECT_FALSE(isReady(block)) << "a cached block was kept";
    }
  }

  void givenBack(void* ptr) {
    const auto found = blocks_.find(ptr);
    if (found != blocks_.end()) {
      EXPECT_FALSE(found->second.in_use) << "a block in use was given back";
      EXPECT_TRUE(found->second.busy.empty())
          << "a stream uses what is given back";
      blocks_.erase(found);
    }
  }

  std::mt19937 random_;
  std::vector<XPUStream> streams_;
  std::deque<std::pair<int, std::unique_ptr<Gate>>> gates_;
  std::map<void*, ModelBlock> blocks_;
  std::vector<DataPtr> owned_;
};

void run(uint32_t seed) {
  SCOPED_TRACE("TORCH_XPU_TEST_SEED=" + std::to_string(seed));
  Model model(seed);
  for (const auto i : c10::irange(1500)) {
    model.step();
    model.check();
    if (::testing::Test::HasFailure()) {
      ADD_FAILURE() << "at step " << i;
      break;
    }
  }
  model.finish();
}

} // namespace

TEST(XPUCachingHostAllocatorModelTest, RandomOperations) {
  C10_XPU_NEEDS_DEVICES(1);
  if (const char* seed = std::getenv("TORCH_XPU_TEST_SEED")) {
    run(static_cast<uint32_t>(std::strtoul(seed, nullptr, 10)));
    return;
  }
  for (const auto seed : c10::irange(10u)) {
    run(seed);
    if (HasFailure()) {
      return;
    }
  }
}
