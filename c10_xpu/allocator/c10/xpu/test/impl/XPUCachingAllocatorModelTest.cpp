// The core of the caching allocator against a model: random operations are
// carried out on an allocator over the fake runtime and, in the plainest way,
// on a few lists, and after each one everything that the allocator tells is
// compared with these lists.
//
// A run is a list of operations that depend on nothing but their numbers, so
// that any part of it is a run too. When one fails it is made shorter as long
// as it still fails, and printed; XPU_ALLOCATOR_MODEL_REPLAY takes that text.
// XPU_ALLOCATOR_MODEL_SEED and XPU_ALLOCATOR_MODEL_OPS choose other runs.

#include <gtest/gtest.h>

#include <c10/util/irange.h>
#include <c10/xpu/test/impl/XPUAllocatorFakeBackend.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <optional>
#include <random>
#include <set>
#include <sstream>
#include <stdexcept>

using namespace c10::xpu::impl;
using namespace c10::xpu::test;
using namespace c10::xpu::XPUCachingAllocator;
using c10::DeviceIndex;
using c10::StreamId;
using c10::xpu::MempoolId_t;
using c10::xpu::XPUStream;

namespace {

constexpr size_t kMiB = size_t{1} << 20;

struct Operation {
  char action;
  uint32_t a;
  uint32_t b;
};
using Run = std::vector<Operation>;

std::string toString(const Run& run) {
  std::ostringstream text;
  for (const Operation& op : run) {
    text << op.action << op.a << ':' << op.b << ' ';
  }
  return text.str();
}

Run fromString(const std::string& text) {
  Run run;
  std::istringstream stream(text);
  char colon = 0;
  for (Operation op{}; stream >> op.action >> op.a >> colon >> op.b;) {
    run.push_back(op);
  }
  return run;
}

// allocate, free, record, work, done, empty, limit, bad free, fault, reset of
// peaks and of counts, private pool
constexpr std::string_view kActions = "afrwdelbxpcm";

Run randomRun(uint64_t seed, size_t length) {
  std::mt19937_64 random(seed);
  std::vector<double> weights = {60, 50, 15, 20, 10, 1, 0.5, 1, 1, 0.5, 0.5, 6};
  for (double& weight : weights) { // each run prefers other actions
    weight *= std::exp(std::normal_distribution<double>(0, 0.4)(random));
  }
  std::discrete_distribution<size_t> choose(weights.begin(), weights.end());
  Run run;
  for (size_t i = 0; i < length; ++i) {
    run.push_back(
        {kActions[choose(random)],
         static_cast<uint32_t>(random()),
         static_cast<uint32_t>(random())});
  }
  return run;
}

struct Case {
  size_t memory; // of each card, in bytes
  AllocatorConfig config;
  bool one_card = false; // for both devices
  std::function<void(DeviceStats&)> falsify = [](DeviceStats&) {};
};

void require(bool ok, const std::string& what) {
  if (!ok) {
    throw std::runtime_error(what);
  }
}

class Model {
 public:
  explicit Model(const Case& setup) : setup_(setup), config_(setup.config) {
    backend_.config = config_;
    backend_.capacity = setup.memory / 8 * 7; // less than the limit
    for (const auto i : c10::irange(kDevices)) {
      cards_[i].total = setup.memory;
      devices_.push_back(
          std::make_unique<DeviceAllocator>(backend_, cards_[cardOf(i)], i));
    }
  }

  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;
  ~Model() { // a run that fails leaves blocks in use behind
    try {
      finish();
    } catch (const std::exception&) { // NOLINT(bugprone-empty-catch)
    }
  }

  // The error, or nothing.
  static std::optional<std::string> check(const Case& setup, const Run& run) {
    Model model(setup);
    size_t i = 0;
    try {
      for (; i < run.size(); ++i) {
        model.apply(run[i]);
        model.verify();
      }
      model.finish();
    } catch (const std::exception& error) {
      return "operation " + std::to_string(i) + ": " + error.what();
    }
    return std::nullopt;
  }

 private:
  static constexpr DeviceIndex kDevices = 2;
  static constexpr std::array<StreamId, 3> kStreams = {0, 7, 600};

  struct Live {
    char* ptr;
    size_t requested;
    XPUStream stream;
    std::vector<XPUStream> uses;
    std::vector<uint64_t> marks; // when freed: the last work of each stream
    MempoolId_t pool;
  };
  struct PoolModel {
    MempoolId_t id{0, 0};
    int uses = 0;
    StreamId filter = kNone;
  };
  static constexpr StreamId kNone = -2;
  static constexpr StreamId kAll = -1;
  using Counts = std::map<std::string, StatArray>; // what a snapshot says
  struct Known { // of one Stat
    int64_t peak = 0;
    int64_t base = 0; // the value at the last reset of counts
  };
  struct DeviceModel {
    std::map<std::string, Known> known;
    int64_t ooms = 0;
    std::array<PoolModel, 3> pools;
    std::vector<PoolModel*> filtered; // the last is asked first
    bool reset_peak = false;
    bool reset_counts = false;
  };

  DeviceIndex cardOf(DeviceIndex device) const {
    return setup_.one_card ? DeviceIndex{0} : device;
  }

  static XPUStream streamOf(uint32_t number) {
    const size_t n = kStreams.size();
    return fakeStream(
        kStreams[number % n], static_cast<DeviceIndex>(number / n % kDevices));
  }

  // All orders of magnitude alike, and often the edges of pools.
  size_t sizeOf(uint32_t number) const {
    std::mt19937 random(number);
    const size_t most = setup_.memory / 8;
    const double top = std::log2(static_cast<double>(most));
    const std::array<size_t, 9> edges = {
        1,
        512,
        513,
        kSmallSize,
        kSmallSize + 1,
        kSmallBuffer,
        kLargeBuffer + kMiB / 2,
        32 * kMiB,
        most};
    const auto any = static_cast<size_t>(
        std::exp2(std::uniform_real_distribution<double>(0, top)(random)));
    const size_t size = random() % 4 == 0 ? edges[random() % 9] : any;
    return std::min(std::max<size_t>(size, 1), most);
  }

  std::vector<SegmentInfo> snapshot() {
    std::vector<SegmentInfo> result;
    for (const auto& device : devices_) {
      device->snapshot(result);
    }
    std::sort(result.begin(), result.end(), [](const auto& a, const auto& b) {
      return a.address < b.address;
    });
    return result;
  }

  // ---- operations ----

  void apply(const Operation& op) {
    before_ = snapshot();
    const auto device = static_cast<DeviceIndex>(op.a % kDevices);
    Live* const any = live_.empty() ? nullptr : &live_[op.a % live_.size()];
    switch (op.action) {
      case 'a':
        return allocate(streamOf(op.a), sizeOf(op.b));
      case 'f':
        return any == nullptr ? void() : freeBlock(op.a % live_.size());
      case 'r':
        if (any != nullptr) {
          const XPUStream stream = streamOf(op.b);
          DeviceAllocator::recordStream(find(any->ptr), any->ptr, stream);
          if (stream != any->stream) {
            any->uses.push_back(stream);
          }
        }
        return;
      case 'w': // on the block's own stream or one that was recorded
        if (any != nullptr) {
          const size_t use = op.b / 16 % (any->uses.size() + 1);
          backend_.enqueue(
              use == 0 ? any->stream : any->uses[use - 1],
              any->ptr,
              /*host_task=*/op.b % 16 == 0);
        }
        return;
      case 'd':
        return backend_.finish(streamOf(op.a), op.b % 8);
      case 'e':
        try {
          for (const auto& each : devices_) {
            each->emptyCache();
          }
        } catch (const c10::Error&) {
          return require(!backend_.clearFault(), "an error without a fault");
        }
        for (const SegmentInfo& segment : snapshot()) {
          requireInUse(segment, "emptyCache");
        }
        return;
      case 'm':
        return usePool(device, model_[device].pools[op.a / 2 % 3], op.b);
      case 'l': {
        const double fraction = op.b % 3 == 0 ? 1.0 : (op.b % 1000) / 1000.0;
        const auto limit =
            static_cast<size_t>(fraction * static_cast<double>(setup_.memory));
        cards_[cardOf(device)].limit = limits_[cardOf(device)] = limit;
        return;
      }
      case 'b':
        return badFree(op.a);
      case 'x':
        return backend_.inject(static_cast<FakeBackend::Fault>(1 + op.b % 5));
      case 'p':
        devices_[device]->resetPeakStats();
        model_[device].reset_peak = true;
        return;
      case 'c':
        devices_[device]->resetAccumulatedStats();
        model_[device].reset_counts = true;
        return;
      default:
        require(false, "unknown operation");
    }
  }

  static bool hasOwnMemory(MempoolId_t id) {
    return id.second % 2 == 1;
  }
  PoolMemory ownMemory() {
    const auto allocate = [this](size_t size, XPUStream stream) {
      void* const ptr = backend_.allocate(stream.device_index(), size);
      if (ptr != nullptr) {
        own_.insert(reinterpret_cast<uintptr_t>(ptr));
      }
      return ptr;
    };
    return {allocate, [this](void* ptr) {
              const auto address = reinterpret_cast<uintptr_t>(ptr);
              backend_.deallocate(backend_.segments().at(address).first, ptr);
              own_.erase(address);
            }};
  }
  static bool useOnOOM(MempoolId_t id) {
    return id.second % 4 >= 2;
  }

  void usePool(DeviceIndex device, PoolModel& pool, uint32_t number) {
    DeviceAllocator& allocator = *devices_[device];
    auto& filtered = model_[device].filtered;
    const bool has_filter = pool.filter != kNone;
    switch (pool.id == MempoolId_t() ? 0 : number / 8 % 6) {
      case 0:
        if (pool.uses == 0 && (pool.id == MempoolId_t() || number % 8 != 0)) {
          pool.id = {0, ++num_pools_}; // else it comes back
        }
        allocator.createOrIncrefPool(
            pool.id, hasOwnMemory(pool.id) ? ownMemory() : PoolMemory());
        allocator.setUseOnOOM(pool.id, useOnOOM(pool.id));
        ++pool.uses;
        return;
      case 1:
      case 2: {
        const StreamId only = number / 64 % 2 == 0
            ? kAll
            : kStreams[number / 128 % kStreams.size()];
        if (!has_filter && pool.uses > 0) {
          pool.filter = only;
          ++pool.uses;
          filtered.push_back(&pool);
          allocator.beginAllocateToPool(pool.id, [only](XPUStream stream) {
            return only == kAll || stream.id() == only;
          });
        }
        return;
      }
      case 3:
        if (has_filter) {
          allocator.endAllocateToPool(pool.id);
          filtered.erase(std::find(filtered.begin(), filtered.end(), &pool));
          pool.filter = kNone;
        }
        return;
      case 4:
        if (pool.uses > (has_filter ? 1 : 0)) {
          allocator.releasePool(pool.id);
          --pool.uses;
        }
        return;
      default:
        try {
          allocator.emptyCache(pool.id);
        } catch (const c10::Error&) {
          return require(!backend_.clearFault(), "an error without a fault");
        }
        const auto now = snapshot();
        for (const SegmentInfo& segment : now) {
          if (segment.device == device &&
              segment.owner_private_pool_id == pool.id) {
            requireInUse(segment, "emptyCache of a pool");
          }
        }
        for (const SegmentInfo& segment : before_) {
          const bool kept =
              std::any_of(now.begin(), now.end(), [&](const auto& each) {
                return each.address == segment.address;
              });
          require(
              kept ||
                  (segment.device == device &&
                   segment.owner_private_pool_id == pool.id),
              "emptyCache of a pool gave back what is not its own");
        }
    }
  }

  // Where a request for the stream goes.
  MempoolId_t poolOf(XPUStream stream) {
    const auto& filtered = model_[stream.device_index()].filtered;
    const auto found = std::find_if(
        filtered.rbegin(), filtered.rend(), [&](const PoolModel* pool) {
          return pool->filter == kAll || pool->filter == stream.id();
        });
    return found == filtered.rend() ? MempoolId_t() : (*found)->id;
  }

  int usesOf(const SegmentInfo& segment) {
    for (const PoolModel& pool : model_[segment.device].pools) {
      if (pool.id == segment.owner_private_pool_id) {
        return pool.uses;
      }
    }
    return 0;
  }

  Block* find(void* ptr) {
    Block* const block = backend_.table.find(ptr);
    TORCH_CHECK(block != nullptr, "unknown pointer");
    return block;
  }

  void allocate(XPUStream stream, size_t size) {
    DeviceAllocator& device = *devices_[stream.device_index()];
    char* ptr = nullptr;
    try {
      ptr = static_cast<char*>(device.allocate(size, stream));
    } catch (const c10::OutOfMemoryError&) {
      ++model_[stream.device_index()].ooms;
      return checkOutOfMemory(stream, size);
    } catch (const c10::Error&) {
      return require(!backend_.clearFault(), "an error without a fault");
    }
    MempoolId_t pool = poolOf(stream);
    if (!checkFit(stream, pool, ptr, config_.roundSize(size))) {
      pool = checkLastResort(stream, ptr, size);
    }
    for (const auto* blocks : {&live_, &held_}) {
      for (const Live& other : *blocks) {
        require(
            ptr >= other.ptr + other.requested || other.ptr >= ptr + size ||
                (blocks == &held_ && !mustBeHeld(other)),
            "overlap with a block in use");
      }
    }
    live_.push_back({ptr, size, stream, {}, {}, pool});
  }

  // No memory was left for the request, but in the pool that is returned.
  MempoolId_t checkLastResort(XPUStream stream, char* ptr, size_t size) {
    for (const SegmentInfo& segment : snapshot()) {
      if (inSegment(segment, ptr)) {
        require(poolOf(stream) == MempoolId_t(), "from another private pool");
        require(useOnOOM(segment.owner_private_pool_id), "from a private pool");
        checkOutOfMemory(stream, size, /*but_on_oom=*/true);
        return segment.owner_private_pool_id;
      }
    }
    return {};
  }

  static bool inSegment(const SegmentInfo& segment, const char* ptr) {
    const auto at = reinterpret_cast<int64_t>(ptr);
    return at >= segment.address && at < segment.address + segment.total_size;
  }

  // The block is the best fit of what was free. What was pending may have
  // become free meanwhile, so that nothing is known then. Returns whether it is
  // from the pool.
  bool checkFit(
      XPUStream stream,
      MempoolId_t pool,
      const char* ptr,
      size_t rounded) {
    for (const SegmentInfo& segment : snapshot()) {
      if (inSegment(segment, ptr) && segment.owner_private_pool_id != pool) {
        return false;
      }
    }
    const bool large = rounded > kSmallSize;
    size_t best = 0;
    size_t used = 0;
    for (const SegmentInfo& segment : before_) {
      if (segment.device != stream.device_index() ||
          segment.stream != stream.id() ||
          segment.owner_private_pool_id != pool) {
        continue;
      }
      if (segment.active_size != segment.allocated_size) {
        return true;
      }
      forEachBlock(segment, [&](const char* at, const BlockInfo& block) {
        const auto size = static_cast<size_t>(block.size);
        if (!block.active && segment.is_large == large && size >= rounded) {
          best = best == 0 ? size : std::min(best, size);
          used = at == ptr ? size : used;
        }
      });
    }
    const size_t max_split = config_.max_split_size;
    const bool may_use = best < max_split ||
        (rounded >= max_split && best - rounded < kLargeBuffer);
    require(!may_use || used == best, "not the best fit");
    return true;
  }

  template <class Visitor>
  static void forEachBlock(const SegmentInfo& segment, Visitor visit) {
    auto address = static_cast<uintptr_t>(segment.address);
    for (const BlockInfo& block : segment.blocks) {
      visit(reinterpret_cast<char*>(address), block);
      address += static_cast<size_t>(block.size);
    }
  }

  // A segment that stays although memory was given back has a block that is
  // allocated, or one that is used by work behind a host task.
  void requireInUse(const SegmentInfo& segment, const std::string& by) {
    const auto held = [&](const XPUStream& stream) {
      return backend_.heldByHost(stream);
    };
    const XPUStream own =
        fakeStream(segment.stream, static_cast<DeviceIndex>(segment.device));
    require(
        segment.active_size > 0 || held(own) || usesOf(segment) > 0,
        by + " left an idle segment");
    forEachBlock(segment, [&](const char* at, const BlockInfo& block) {
      require(
          block.allocated || !block.active ||
              std::any_of(
                  held_.begin(),
                  held_.end(),
                  [&](const Live& each) {
                    return each.ptr == at &&
                        std::any_of(each.uses.begin(), each.uses.end(), held);
                  }),
          by + " left a block pending");
    });
  }

  void checkOutOfMemory(
      XPUStream stream,
      size_t size,
      bool but_on_oom = false) {
    const MempoolId_t pool = poolOf(stream);
    const DeviceIndex device = stream.device_index();
    const size_t rounded = config_.roundSize(size);
    const bool large = rounded > kSmallSize;
    size_t reserved = 0;
    for (const SegmentInfo& segment : snapshot()) {
      if (cardOf(static_cast<DeviceIndex>(segment.device)) != cardOf(device)) {
        continue;
      }
      reserved += segment.total_size;
      if (segment.device == device || !but_on_oom) {
        requireInUse(segment, "out of memory");
      }
      if (segment.device != device) {
        continue;
      }
      const MempoolId_t owner = segment.owner_private_pool_id;
      const bool may_serve = owner == pool ||
          (!but_on_oom && pool == MempoolId_t() && useOnOOM(owner));
      forEachBlock(segment, [&](const char*, const BlockInfo& block) {
        const auto free = static_cast<size_t>(block.size);
        require(
            block.active || !may_serve || segment.stream != stream.id() ||
                segment.is_large != large || free < rounded ||
                free >= config_.max_split_size,
            "out of memory with a block that fits");
      });
    }
    const size_t wanted = large ? rounded + kRoundLarge : kSmallBuffer;
    require(
        reserved + wanted > limits_[cardOf(device)] ||
            backend_.available(device) < wanted,
        "out of memory with memory left");
  }

  void freeBlock(size_t index) {
    Live block = live_[index];
    for (const XPUStream& stream : block.uses) {
      block.marks.push_back(backend_.progress(stream).first);
    }
    DeviceAllocator::free(find(block.ptr), block.ptr); // raises nothing
    live_.erase(live_.begin() + static_cast<ptrdiff_t>(index));
    if (!block.uses.empty()) {
      return held_.push_back(block);
    }
    for (const SegmentInfo& segment : snapshot()) {
      forEachBlock(segment, [&](const char* at, const BlockInfo& info) {
        require(at != block.ptr || !info.active, "pending without a reason");
      });
    }
  }

  void badFree(uint32_t number) {
    static std::array<char, 1024> own{};
    std::vector<char*> pointers = {
        own.data(), own.data() + 1, reinterpret_cast<char*>(uintptr_t{0x1000})};
    if (!live_.empty()) {
      const Live& block = live_[number % live_.size()];
      pointers.push_back(block.ptr + 1);
      if (block.requested > kMinBlockSize) {
        pointers.push_back(block.ptr + kMinBlockSize);
      }
    }
    for (const SegmentInfo& segment : before_) { // freed twice, or pending
      forEachBlock(segment, [&](char* at, const BlockInfo& block) {
        if (!block.allocated) {
          pointers.push_back(at);
        }
      });
    }
    for (char* ptr : pointers) {
      bool thrown = false;
      try {
        DeviceAllocator::free(find(ptr), ptr);
      } catch (const c10::Error&) {
        thrown = true;
      }
      require(thrown, "a wrong pointer was freed");
    }
  }

  // ---- invariants ----

  bool mustBeHeld(const Live& block) {
    for (const auto i : c10::irange(block.uses.size())) {
      if (backend_.progress(block.uses[i]).second < block.marks[i]) {
        return true;
      }
    }
    return false;
  }

  void verify() {
    require(backend_.misuse.empty(), backend_.misuse);
    const std::vector<SegmentInfo> now = snapshot();
    for (const SegmentInfo& segment : before_) {
      const auto same = [&](const auto& each) {
        return each.address == segment.address;
      };
      require(
          usesOf(segment) == 0 || std::any_of(now.begin(), now.end(), same),
          "gave back what a private pool in use has");
    }
    std::array<Counts, kDevices> counts;
    std::map<const char*, std::pair<const SegmentInfo*, const BlockInfo*>>
        found;
    auto memory = backend_.segments();
    uintptr_t end = 0;
    for (const SegmentInfo& segment : now) {
      const auto start = static_cast<uintptr_t>(segment.address);
      require(start >= end, "segments overlap");
      end = start + static_cast<uintptr_t>(segment.total_size);
      require(
          memory[start] ==
              std::make_pair(
                  static_cast<DeviceIndex>(segment.device), end - start),
          "a segment that the runtime does not know");
      memory.erase(start);
      require(
          own_.count(start) ==
              (hasOwnMemory(segment.owner_private_pool_id) ? 1 : 0),
          "not from the pool's allocator");
      for (const auto& device : devices_) {
        require(
            device->owns(reinterpret_cast<char*>(end - 1)) ==
                (device.get() == devices_[segment.device].get()),
            "not its owner");
      }
      const auto add = [&](const char* name, int64_t by) {
        StatArray& array = counts[segment.device][name];
        array[0].current += by;
        array[segment.is_large ? 2 : 1].current += by;
      };
      add("segment", 1);
      add("reserved_bytes", segment.total_size);
      bool last_free = false;
      forEachBlock(segment, [&](const char* at, const BlockInfo& block) {
        require(
            block.size > 0 && block.size % kMinBlockSize == 0, "granularity");
        found[at] = {&segment, &block};
        add("allocation", block.allocated);
        add("allocated_bytes", block.allocated ? block.size : 0);
        add("requested_bytes", block.requested_size);
        add("active", block.active);
        add("active_bytes", block.active ? block.size : 0);
        const bool split = !block.active && segment.blocks.size() > 1;
        add("inactive_split", split);
        add("inactive_split_bytes", split ? block.size : 0);
        require(block.active || !last_free, "free neighbours, not merged");
        last_free = !block.active;
      });
    }
    require(memory.empty(), "a segment is lost");

    // Exactly the live blocks are allocated, each in its stream's segments.
    size_t allocated = 0;
    for (const auto& each : found) {
      allocated += each.second.second->allocated ? 1 : 0;
    }
    require(allocated == live_.size(), "lost or invented a block");
    for (const Live& live : live_) {
      const auto [segment, block] = found[live.ptr];
      require(block != nullptr && block->allocated, "a block is lost");
      const size_t rounded = config_.roundSize(live.requested);
      const auto size = static_cast<size_t>(block->size);
      require(
          size == rounded ||
              (rounded >= config_.max_split_size && size > rounded &&
               size < rounded + kLargeBuffer),
          "wrong size");
      require(
          block->requested_size == static_cast<int64_t>(live.requested) &&
              segment->device == live.stream.device_index() &&
              segment->stream == live.stream.id() &&
              segment->owner_private_pool_id == live.pool,
          "wrong stream, pool or requested size");
    }
    for (const auto i : c10::irange(kDevices)) {
      for (const PoolModel& pool : model_[i].pools) {
        require(
            devices_[i]->getPoolUseCount(pool.id) == pool.uses,
            "wrong use count");
      }
    }
    const auto passed =
        std::remove_if(held_.begin(), held_.end(), [&](const Live& block) {
          const BlockInfo* const info = found[block.ptr].second;
          const bool active = info != nullptr && info->active;
          require(
              !mustBeHeld(block) || (active && !info->allocated),
              "a block is reused too early");
          return !active || info->allocated;
        });
    held_.erase(passed, held_.end());

    // Reading the statistics brings peaks up to date. So that this hides
    // nothing, long stretches pass without it.
    ++verifications_;
    const bool read = verifications_ % 32 == 1 || verifications_ % 64 < 16;
    for (const auto i : c10::irange(kDevices)) {
      verifyStats(i, counts[i], read);
    }
  }

  void verifyStats(DeviceIndex device, Counts& counts, bool read) {
    DeviceStats stats;
    if (read) {
      stats = devices_[device]->stats();
      setup_.falsify(stats);
    }
    DeviceModel& model = model_[device];
    // Where a step of an operation may be higher than its end, only a lower
    // bound of the peak is known.
    const auto check = [&](const std::string& name,
                           const StatArray& now,
                           bool every_step_seen) {
      for (const auto type : c10::irange(now.size())) {
        const Stat& stat = now[type];
        const int64_t value = counts[name][type].current;
        const std::string which = name + "[" + std::to_string(type) + "]";
        Known& known = model.known[which];
        known.peak = model.reset_peak ? value : std::max(known.peak, value);
        known.base = model.reset_counts ? value : known.base;
        if (!read) {
          continue;
        }
        const auto same = [&](const char* field, int64_t a, int64_t b) {
          require(
              a == b,
              which + field + " is " + std::to_string(a) + ", not " +
                  std::to_string(b));
        };
        if (!every_step_seen && !model.reset_peak) {
          known.peak = std::max(known.peak, stat.peak);
        }
        same(".current", stat.current, value);
        same(".peak", stat.peak, known.peak);
        same(".allocated", stat.allocated - stat.freed, value - known.base);
        require(stat.allocated >= 0 && stat.freed >= 0, which + " below zero");
      }
    };
    check("allocation", stats.allocation, true);
    check("allocated_bytes", stats.allocated_bytes, true);
    check("requested_bytes", stats.requested_bytes, true);
    check("active", stats.active, true);
    check("active_bytes", stats.active_bytes, true);
    check("segment", stats.segment, false);
    check("reserved_bytes", stats.reserved_bytes, false);
    check("inactive_split", stats.inactive_split, false);
    check("inactive_split_bytes", stats.inactive_split_bytes, false);
    model.ooms = model.reset_counts ? 0 : model.ooms;
    model.reset_peak = model.reset_counts = false;
    if (read) {
      require(stats.num_ooms == model.ooms, "num_ooms");
      require(stats.num_alloc_retries >= model.ooms, "num_alloc_retries");
      const auto oversize =
          std::count_if(live_.begin(), live_.end(), [&](const Live& block) {
            return block.stream.device_index() == device &&
                config_.roundSize(block.requested) >= config_.max_split_size;
          });
      require(stats.oversize_allocations.current == oversize, "oversize");
    }
  }

  // Frees everything; nothing may remain.
  void finish() {
    backend_.clearFault();
    for (uint32_t i = 0; i < kStreams.size() * kDevices; ++i) {
      backend_.finish(streamOf(i));
    }
    while (!live_.empty()) {
      freeBlock(live_.size() - 1);
    }
    for (const auto i : c10::irange(kDevices)) {
      for (PoolModel& pool : model_[i].pools) {
        if (pool.filter != kNone) {
          devices_[i]->endAllocateToPool(pool.id);
        }
        for (; pool.uses > 0; --pool.uses) {
          devices_[i]->releasePool(pool.id);
        }
      }
    }
    for (const auto& device : devices_) {
      device->emptyCache();
    }
    require(snapshot().empty(), "memory is lost");
    before_.clear();
    verify();
  }

  const Case& setup_;
  const AllocatorConfig config_;
  FakeBackend backend_;
  std::set<uintptr_t> own_; // segments of pools with memory of their own
  uint64_t num_pools_ = 0;
  std::array<Card, kDevices> cards_;
  std::vector<std::unique_ptr<DeviceAllocator>> devices_;
  std::array<size_t, kDevices> limits_{
      AllocatorConfig::kUnlimited,
      AllocatorConfig::kUnlimited};
  std::array<DeviceModel, kDevices> model_;
  std::vector<Live> live_;
  std::vector<Live> held_; // freed, and pending as far as the model can tell
  std::vector<SegmentInfo> before_;
  uint64_t verifications_ = 0;
};

// Carries out random runs and returns the report of the first one that fails,
// made short, else nothing.
std::optional<std::string> runModel(
    const Case& setup,
    uint64_t seed,
    size_t runs,
    size_t length) {
  if (const char* replay = std::getenv("XPU_ALLOCATOR_MODEL_REPLAY")) {
    return Model::check(setup, fromString(replay));
  }
  if (const char* text = std::getenv("XPU_ALLOCATOR_MODEL_SEED")) {
    seed = std::stoull(text);
    runs = 1;
  }
  if (const char* text = std::getenv("XPU_ALLOCATOR_MODEL_OPS")) {
    length = std::stoull(text);
  }
  for (const uint64_t last = seed + runs; seed != last; ++seed) {
    Run run = randomRun(seed, length);
    auto error = Model::check(setup, run);
    if (!error) {
      continue;
    }
    const std::string first = *error;
    for (size_t part = run.size() / 2; part > 0; part /= 2) {
      for (size_t at = 0; at < run.size();) {
        Run shorter = run;
        shorter.erase(
            shorter.begin() + static_cast<ptrdiff_t>(at),
            shorter.begin() +
                static_cast<ptrdiff_t>(std::min(at + part, run.size())));
        if (auto still = Model::check(setup, shorter)) {
          run = std::move(shorter);
          error = still;
        } else {
          at += part;
        }
      }
    }
    return "seed " + std::to_string(seed) + ": " + first +
        "\nshortened to: " + *error + "\nXPU_ALLOCATOR_MODEL_REPLAY='" +
        toString(run) + "'";
  }
  return std::nullopt;
}

void expectModel(const Case& setup, uint64_t seed, size_t runs, size_t length) {
  const auto error = runModel(setup, seed, runs, length);
  EXPECT_FALSE(error.has_value()) << *error;
}

} // namespace

TEST(XPUCachingAllocatorModelTest, AmpleMemory) {
  expectModel({16384 * kMiB, {}}, 1000, 6, 1200);
}

TEST(XPUCachingAllocatorModelTest, ScarceMemory) {
  expectModel({96 * kMiB, {}}, 2000, 12, 800);
}

TEST(XPUCachingAllocatorModelTest, TwoDevicesOfOneCard) {
  expectModel({96 * kMiB, {}, /*one_card=*/true}, 3000, 8, 800);
}

TEST(XPUCachingAllocatorModelTest, OversizeBlocks) {
  AllocatorConfig config;
  config.max_split_size = 21 * kMiB;
  expectModel({1024 * kMiB, config}, 4000, 8, 800);
}

TEST(XPUCachingAllocatorModelTest, RoundedSizesAndGarbageCollection) {
  AllocatorConfig config;
  config.roundup_power2_divisions = 4;
  config.garbage_collection_threshold = 0.3;
  expectModel({512 * kMiB, config}, 5000, 8, 800);
}

// The model finds faults: a run in which the allocator is given a wrong book
// must fail, and be shortened.
TEST(XPUCachingAllocatorModelTest, FindsAWrongStatistic) {
  Case setup{512 * kMiB, {}};
  setup.falsify = [](DeviceStats& stats) {
    Stat& stat = stats.allocated_bytes[0];
    stat.peak -= stat.peak > int64_t{1} << 20;
  };
  const auto error = runModel(setup, 1, 1, 200);
  ASSERT_TRUE(error.has_value());
  EXPECT_NE(error->find("allocated_bytes[0].peak"), std::string::npos);
  const auto at = error->find("REPLAY='");
  ASSERT_NE(at, std::string::npos);
  EXPECT_EQ(fromString(error->substr(at + 8)).size(), 1);
}
