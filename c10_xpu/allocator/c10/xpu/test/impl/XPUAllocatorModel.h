#pragma once

// A model test of the caching allocator: random operations are carried out on
// an allocator and, in the plainest way, on a few lists, and after each one
// everything that the allocator tells is compared with these lists.
//
// A run is a list of operations that depend on nothing but their numbers, so
// that any part of it is a run too. When one fails it is made shorter as long
// as it still fails, and printed; XPU_ALLOCATOR_MODEL_REPLAY takes that text.
// XPU_ALLOCATOR_MODEL_SEED and XPU_ALLOCATOR_MODEL_OPS choose other runs.

#include <c10/util/Exception.h>
#include <c10/util/irange.h>
#include <c10/xpu/XPUAllocatorStats.h>
#include <c10/xpu/impl/XPUAllocatorConfig.h>
#include <c10/xpu/impl/XPUBlock.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <optional>
#include <random>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace c10::xpu::impl::model {

using XPUCachingAllocator::BlockInfo;
using XPUCachingAllocator::DeviceStats;
using XPUCachingAllocator::SegmentInfo;
using XPUCachingAllocator::Stat;
using XPUCachingAllocator::StatArray;

enum class Action : char {
  Allocate = 'a',
  Free = 'f',
  Record = 'r',
  Work = 'w',
  Finish = 'd',
  Empty = 'e',
  Fraction = 'l',
  BadFree = 'b',
  Fault = 'x',
  ResetPeak = 'p',
  ResetAccumulated = 'c',
};

struct Operation {
  Action action;
  uint32_t a;
  uint32_t b;
};

using Run = std::vector<Operation>;

inline std::string toString(const Run& run) {
  std::ostringstream text;
  for (const Operation& op : run) {
    text << static_cast<char>(op.action) << op.a << ':' << op.b << ' ';
  }
  return text.str();
}

inline Run fromString(const std::string& text) {
  Run run;
  std::istringstream stream(text);
  char action = 0;
  char colon = 0;
  Operation op{};
  while (stream >> action >> op.a >> colon >> op.b) {
    op.action = static_cast<Action>(action);
    run.push_back(op);
  }
  return run;
}

inline Run randomRun(uint64_t seed, size_t length) {
  std::mt19937_64 random(seed);
  // Each run prefers other actions.
  const std::vector<Action> actions = {
      Action::Allocate,
      Action::Free,
      Action::Record,
      Action::Work,
      Action::Finish,
      Action::Empty,
      Action::Fraction,
      Action::BadFree,
      Action::Fault,
      Action::ResetPeak,
      Action::ResetAccumulated};
  std::vector<double> weights = {60, 50, 15, 10, 10, 1, 0.5, 1, 1, 0.5, 0.5};
  for (double& weight : weights) {
    weight *= std::exp(std::normal_distribution<double>(0, 0.4)(random));
  }
  std::discrete_distribution<size_t> choose(weights.begin(), weights.end());
  Run run;
  run.reserve(length);
  for (size_t i = 0; i < length; ++i) {
    run.push_back(
        {actions[choose(random)],
         static_cast<uint32_t>(random()),
         static_cast<uint32_t>(random())});
  }
  return run;
}

/// What a test knows about the allocator that it drives.
struct Traits {
  int devices = 1;
  std::vector<int64_t> streams; // the same ids on each device
  size_t max_size = size_t{64} << 20;
  AllocatorConfig config;
  size_t total_memory = 0;
};

/// Target offers, besides `Traits traits()`:
///   void* allocate(int device, int64_t stream, size_t size)
///   void free(void*)
///   void recordStream(void*, StreamTag)
///   void enqueue(StreamTag), void finish(StreamTag, n)
///   bool busy(StreamTag), uint64_t enqueued(StreamTag), finished(StreamTag)
///   bool hasMemory(int device, size_t limit, size_t reserved, size_t wanted)
///   void emptyCache(), void setMemoryFraction(double, int device)
///   DeviceStats stats(int device), void resetPeak(i), resetAccumulated(i)
///   std::vector<SegmentInfo> snapshot()       of all devices
///   void inject(which)                        the next call of a kind fails
///   bool clearFault()                         whether it was still pending
///   void verify(snapshot)                     whatever else there is to check
template <class Target>
class Model {
 public:
  explicit Model(Target& target)
      : target_(target), traits_(target.traits()), devices_(traits_.devices) {}

  // The error, or nothing.
  static std::optional<std::string> check(Target& target, const Run& run) {
    Model model(target);
    size_t i = 0;
    try {
      target.emptyCache();
      for (const auto device : c10::irange(model.traits_.devices)) {
        target.resetPeak(device);
        target.resetAccumulated(device);
        target.setMemoryFraction(1.0, device);
        model.devices_[device].limit = model.traits_.total_memory;
      }
      model.verify();
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
  struct Live {
    char* ptr = nullptr;
    size_t requested = 0;
    int device = 0;
    int64_t stream = 0;
    std::vector<StreamTag> uses;
    std::vector<uint64_t> marks; // when freed: the last work of each stream
  };
  struct Known { // of one Stat
    int64_t peak = 0;
    int64_t base = 0; // the value at the last resetAccumulated
  };
  struct Found { // what a snapshot says
    StatArray allocation{};
    StatArray allocated_bytes{};
    StatArray active{};
    StatArray active_bytes{};
    StatArray inactive_split{};
    StatArray inactive_split_bytes{};
    StatArray segment{};
    StatArray reserved_bytes{};
  };
  struct DeviceModel {
    size_t limit = AllocatorConfig::kUnlimited;
    std::map<std::string, Known> known;
    int64_t ooms = 0;
    bool reset_peak = true;
    bool reset_accumulated = true;
  };

  static void require(bool ok, const std::string& what) {
    if (!ok) {
      throw std::runtime_error(what);
    }
  }

  StreamTag streamOf(uint32_t number) const {
    const size_t n = traits_.streams.size();
    return {
        traits_.streams[number % n],
        static_cast<int32_t>(number / n % traits_.devices)};
  }

  size_t sizeOf(uint32_t number) const {
    // Log-uniform, and often the edges of pools and classes.
    std::mt19937 random(number);
    const double top = std::log(static_cast<double>(traits_.max_size));
    auto size = static_cast<size_t>(
        std::exp(std::uniform_real_distribution<double>(0, top)(random)));
    if (random() % 4 == 0) {
      const std::array<size_t, 9> edges = {
          1,
          512,
          513,
          kSmallSize,
          kSmallSize + 1,
          kSmallSegment,
          size_t{20} << 20,
          size_t{32} << 20,
          traits_.max_size};
      size = edges[random() % std::size(edges)];
    }
    return std::min(std::max<size_t>(size, 1), traits_.max_size);
  }

  void apply(const Operation& op) {
    before_ = target_.snapshot();
    switch (op.action) {
      case Action::Allocate:
        return allocate(streamOf(op.a), sizeOf(op.b));
      case Action::Free:
        if (!live_.empty()) {
          freeBlock(op.a % live_.size());
        }
        return;
      case Action::Record:
        if (!live_.empty()) {
          Live& block = live_[op.a % live_.size()];
          const StreamTag stream = streamOf(op.b);
          target_.recordStream(block.ptr, stream);
          if (!(stream == StreamTag{block.stream, block.device})) {
            block.uses.push_back(stream);
          }
        }
        return;
      case Action::Work:
        return target_.enqueue(streamOf(op.a));
      case Action::Finish:
        return target_.finish(streamOf(op.a), op.b % 4);
      case Action::Empty:
        try {
          target_.emptyCache();
        } catch (const Error&) {
          return require(!target_.clearFault(), "an error without a fault");
        }
        for (const SegmentInfo& segment : target_.snapshot()) {
          require(
              segment.active_size > 0 &&
                  segment.active_size == segment.allocated_size,
              "emptyCache left an idle segment or a block held back");
        }
        return;
      case Action::Fraction: {
        const int device = static_cast<int>(op.a % traits_.devices);
        const double fraction = op.b % 3 == 0 ? 1.0 : (op.b % 1000) / 1000.0;
        target_.setMemoryFraction(fraction, device);
        devices_[device].limit = static_cast<size_t>(
            fraction * static_cast<double>(traits_.total_memory));
        return;
      }
      case Action::BadFree:
        return badFree(op.a);
      case Action::Fault:
        return target_.inject(op.a);
      case Action::ResetPeak: {
        const int device = static_cast<int>(op.a % traits_.devices);
        target_.resetPeak(device);
        devices_[device].reset_peak = true;
        return;
      }
      case Action::ResetAccumulated: {
        const int device = static_cast<int>(op.a % traits_.devices);
        target_.resetAccumulated(device);
        devices_[device].reset_accumulated = true;
        return;
      }
    }
    require(false, "unknown operation");
  }

  // ---- operations ----

  void allocate(StreamTag stream, size_t size) {
    char* ptr = nullptr;
    try {
      ptr =
          static_cast<char*>(target_.allocate(stream.device, stream.id, size));
    } catch (const OutOfMemoryError& error) {
      return checkOutOfMemory(stream, size, error);
    } catch (const Error&) {
      require(!target_.clearFault(), "an error without a fault");
      return;
    }
    const size_t rounded = traits_.config.roundSize(size);
    const auto after = target_.snapshot();
    const SegmentInfo& segment = segmentOf(after, ptr);
    const bool grown = std::none_of(
        before_.begin(), before_.end(), [&](const SegmentInfo& known) {
          return known.address == segment.address &&
              known.total_size == segment.total_size &&
              known.device == segment.device &&
              known.stream == segment.stream &&
              known.is_large == segment.is_large;
        });
    if (grown) {
      int64_t reserved = 0;
      for (const SegmentInfo& other : after) {
        reserved += other.device == stream.device ? other.total_size : 0;
      }
      require(
          static_cast<size_t>(reserved) <= devices_[stream.device].limit,
          "the limit was exceeded");
    }
    checkFit(stream, ptr, rounded, grown);
    for (const Live& block : live_) {
      require(
          ptr >= block.ptr + block.requested || block.ptr >= ptr + size,
          "overlap with a live block");
    }
    for (const Live& block : held_) {
      require(
          ptr >= block.ptr + block.requested || block.ptr >= ptr + size ||
              !mustBeHeld(block),
          "overlap with a block that a stream uses");
    }
    live_.push_back({ptr, size, stream.device, stream.id, {}, {}});
  }

  // No better block was free. Only if nothing was held back, since what is
  // polled is not known here.
  void checkFit(StreamTag stream, const char* ptr, size_t rounded, bool grown) {
    const bool large = rounded > kSmallSize;
    size_t best = AllocatorConfig::kUnlimited;
    size_t used = 0;
    for (const SegmentInfo& segment : before_) {
      if (segment.device != stream.device || segment.stream != stream.id) {
        continue;
      }
      if (segment.active_size != segment.allocated_size) {
        return;
      }
      auto address = static_cast<uintptr_t>(segment.address);
      for (const BlockInfo& block : segment.blocks) {
        const auto size = static_cast<size_t>(block.size);
        if (!block.active) {
          if (segment.is_large == large && size >= rounded) {
            best = std::min(best, size);
          }
          if (address == reinterpret_cast<uintptr_t>(ptr)) {
            used = size;
          }
        }
        address += size;
      }
    }
    if (best == AllocatorConfig::kUnlimited) {
      return require(grown, "a block from nowhere");
    }
    // A thrifty allocation passes such an idle segment over for a new one.
    const bool passed_over = large && best - rounded > best / 4;
    if (grown) {
      return require(
          best >= traits_.config.max_split_size || passed_over,
          "a cached block was not used");
    }
    require(used >= rounded, "the block was not free before");
    if (passed_over && target_.snapshot().size() < before_.size()) {
      return; // it was given back, but there was no new one after all
    }
    const size_t allowed = large ? best + best / 64 : best;
    require(used <= allowed, "not the best fit");
  }

  void checkOutOfMemory(
      StreamTag stream,
      size_t size,
      const OutOfMemoryError& error) {
    ++devices_[stream.device].ooms;
    const std::string text = error.what();
    for (const char* word :
         {"Tried to allocate", "allocated", "free", "reserved", "XPU"}) {
      require(
          text.find(word) != text.npos, "message lacks " + std::string(word));
    }
    const size_t rounded = traits_.config.roundSize(size);
    const bool large = rounded > kSmallSize;
    size_t reserved = 0;
    for (const SegmentInfo& segment : target_.snapshot()) {
      if (segment.device != stream.device) {
        continue;
      }
      reserved += segment.total_size;
      require(segment.active_size > 0, "out of memory with an idle segment");
      require(
          segment.active_size == segment.allocated_size,
          "out of memory with a block held back");
      if (segment.stream == stream.id && segment.is_large == large) {
        for (const BlockInfo& block : segment.blocks) {
          const auto free = static_cast<size_t>(block.size);
          require(
              block.active || free < rounded ||
                  free >= traits_.config.max_split_size,
              "out of memory with a block that fits");
        }
      }
    }
    require(
        !target_.hasMemory(
            stream.device,
            devices_[stream.device].limit,
            reserved,
            large ? rounded : kSmallSegment),
        "out of memory with memory left");
  }

  void freeBlock(size_t index) {
    Live block = live_[index];
    const bool only_own_stream = block.uses.empty();
    // What its streams have to finish is what is enqueued now.
    block.uses.erase(
        std::remove_if(
            block.uses.begin(),
            block.uses.end(),
            [this](const StreamTag& s) { return !target_.busy(s); }),
        block.uses.end());
    for (const StreamTag& stream : block.uses) {
      block.marks.push_back(target_.enqueued(stream));
    }
    target_.free(block.ptr); // raises nothing, whatever the runtime does
    live_.erase(live_.begin() + static_cast<ptrdiff_t>(index));
    if (!block.uses.empty()) {
      held_.push_back(block);
    }
    if (only_own_stream) {
      require(!isActive(block.ptr), "a block is held back without a reason");
    }
  }

  bool isActive(const char* ptr) {
    const auto snapshot = target_.snapshot();
    const SegmentInfo& segment = segmentOf(snapshot, ptr);
    auto address = static_cast<uintptr_t>(segment.address);
    for (const BlockInfo& block : segment.blocks) {
      address += static_cast<size_t>(block.size);
      if (address > reinterpret_cast<uintptr_t>(ptr)) {
        return block.active;
      }
    }
    throw std::runtime_error("a segment without the block");
  }

  void badFree(uint32_t number) {
    static std::array<char, 1024> own{};
    std::vector<char*> pointers = {
        own.data(), own.data() + 1, reinterpret_cast<char*>(uintptr_t{0x1000})};
    if (!live_.empty()) {
      const Live& block = live_[number % live_.size()];
      pointers.push_back(block.ptr + 1);
      if (block.requested > kBlockGranularity) {
        pointers.push_back(block.ptr + kBlockGranularity);
      }
    }
    for (const SegmentInfo& segment : before_) { // freed twice, or held
      auto address = static_cast<uintptr_t>(segment.address);
      for (const BlockInfo& block : segment.blocks) {
        if (!block.allocated) {
          pointers.push_back(reinterpret_cast<char*>(address));
        }
        address += static_cast<size_t>(block.size);
      }
    }
    for (char* ptr : pointers) {
      bool thrown = false;
      try {
        target_.free(ptr);
      } catch (const Error&) {
        thrown = true;
      }
      require(thrown, "a wrong pointer was freed");
    }
    verifyUnchanged("a wrong free");
  }

  // ---- invariants ----

  bool mustBeHeld(const Live& block) {
    for (const auto i : c10::irange(block.uses.size())) {
      if (target_.finished(block.uses[i]) < block.marks[i]) {
        return true;
      }
    }
    return false;
  }

  void verifyUnchanged(const std::string& by) {
    const auto now = target_.snapshot();
    require(now.size() == before_.size(), "changed by " + by);
    for (const auto i : c10::irange(now.size())) {
      require(
          now[i].address == before_[i].address &&
              now[i].blocks.size() == before_[i].blocks.size() &&
              now[i].allocated_size == before_[i].allocated_size &&
              now[i].active_size == before_[i].active_size,
          "changed by " + by);
    }
  }

  static void add(StatArray& array, bool large, int64_t by) {
    array[0].current += by;
    array[large ? 2 : 1].current += by;
  }

  void verify() {
    const std::vector<SegmentInfo> snapshot = target_.snapshot();
    std::vector<Found> found(traits_.devices);
    std::map<const char*, size_t> allocated;
    uintptr_t end = 0;
    for (const SegmentInfo& segment : snapshot) {
      require(
          static_cast<uintptr_t>(segment.address) >= end,
          "segments overlap or are not in order");
      end = static_cast<uintptr_t>(segment.address + segment.total_size);
      Found& device = found.at(segment.device);
      const bool large = segment.is_large;
      add(device.segment, large, 1);
      add(device.reserved_bytes, large, segment.total_size);
      auto address = static_cast<uintptr_t>(segment.address);
      bool last_free = false;
      for (const BlockInfo& block : segment.blocks) {
        require(
            block.size > 0 && block.size % kBlockGranularity == 0 &&
                address % kBlockGranularity == 0,
            "granularity");
        if (block.allocated) {
          add(device.allocation, large, 1);
          add(device.allocated_bytes, large, block.size);
          allocated[reinterpret_cast<const char*>(address)] = block.size;
        }
        if (block.active) {
          add(device.active, large, 1);
          add(device.active_bytes, large, block.size);
        } else {
          require(!last_free, "free neighbours that are not merged");
          if (segment.blocks.size() > 1) {
            add(device.inactive_split, large, 1);
            add(device.inactive_split_bytes, large, block.size);
          }
        }
        last_free = !block.active;
        address += static_cast<size_t>(block.size);
      }
      require(address == end, "blocks do not make up the segment");
    }

    // Exactly the live blocks are allocated, each in its stream's segments.
    require(allocated.size() == live_.size(), "lost or invented a block");
    for (const Live& block : live_) {
      const auto it = allocated.find(block.ptr);
      require(it != allocated.end(), "a live block is not allocated");
      const size_t rounded = traits_.config.roundSize(block.requested);
      require(
          it->second == rounded ||
              (rounded >= traits_.config.max_split_size &&
               it->second > rounded && it->second < rounded + kOversizeSlack),
          "wrong size");
      const SegmentInfo& segment = segmentOf(snapshot, block.ptr);
      require(
          segment.device == block.device && segment.stream == block.stream,
          "a segment of another stream");
    }
    for (auto it = held_.begin(); it != held_.end();) {
      if (mustBeHeld(*it)) {
        requireHeld(snapshot, *it);
        ++it;
      } else {
        it = held_.erase(it);
      }
    }

    // Reading the statistics also brings peaks up to date. So that this hides
    // nothing, long stretches pass without it.
    ++verifications_;
    const bool read = verifications_ % 32 == 1 || verifications_ % 64 < 16;
    for (const auto i : c10::irange(traits_.devices)) {
      verifyStats(i, found[i], read);
    }
    target_.verify(snapshot);
  }

  const SegmentInfo& segmentOf(
      const std::vector<SegmentInfo>& snapshot,
      const char* ptr) {
    const auto address = static_cast<int64_t>(reinterpret_cast<uintptr_t>(ptr));
    for (const SegmentInfo& segment : snapshot) {
      if (address >= segment.address &&
          address < segment.address + segment.total_size) {
        return segment;
      }
    }
    throw std::runtime_error("a block outside of all segments");
  }

  void requireHeld(const std::vector<SegmentInfo>& snapshot, const Live& held) {
    const SegmentInfo& segment = segmentOf(snapshot, held.ptr);
    auto address = static_cast<uintptr_t>(segment.address);
    for (const BlockInfo& block : segment.blocks) {
      if (address == reinterpret_cast<uintptr_t>(held.ptr)) {
        return require(
            block.active && !block.allocated, "a block is not held back");
      }
      address += static_cast<size_t>(block.size);
    }
    require(false, "a block that is held back was merged");
  }

  void verifyStats(int device, const Found& found, bool read) {
    const DeviceStats stats = read ? target_.stats(device) : DeviceStats();
    DeviceModel& model = devices_[device];
    const auto check = [&](const std::string& name,
                           const StatArray& now,
                           const StatArray& is,
                           bool every_step_seen) {
      for (const auto kind : c10::irange(now.size())) {
        const Stat& stat = now[kind];
        const int64_t value = is[kind].current;
        const std::string which = name + "[" + std::to_string(kind) + "]";
        const auto same = [&](const char* field, int64_t a, int64_t b) {
          require(
              a == b,
              which + field + " is " + std::to_string(a) + ", not " +
                  std::to_string(b));
        };
        Known& known = model.known[which];
        known.peak = model.reset_peak ? value : std::max(known.peak, value);
        known.base = model.reset_accumulated ? value : known.base;
        if (!read) {
          continue;
        }
        same(".current", stat.current, value);
        same(
            ".allocated - .freed",
            stat.allocated - stat.freed,
            value - known.base);
        require(stat.allocated >= 0 && stat.freed >= 0, which + " below zero");
        if (!every_step_seen && !model.reset_peak) {
          require(stat.peak >= known.peak, which + ".peak is too low");
          known.peak = stat.peak;
        }
        same(".peak", stat.peak, known.peak);
      }
      if (!read) {
        return;
      }
      for (const auto field :
           {&Stat::current, &Stat::allocated, &Stat::freed}) {
        require(
            now[0].*field == now[1].*field + now[2].*field,
            name + ": the pools do not sum up");
      }
    };
    check("allocation", stats.allocation, found.allocation, true);
    check(
        "allocated_bytes", stats.allocated_bytes, found.allocated_bytes, true);
    check("active", stats.active, found.active, true);
    check("active_bytes", stats.active_bytes, found.active_bytes, true);
    check("segment", stats.segment, found.segment, false);
    check("reserved_bytes", stats.reserved_bytes, found.reserved_bytes, false);
    check("inactive_split", stats.inactive_split, found.inactive_split, false);
    check(
        "inactive_split_bytes",
        stats.inactive_split_bytes,
        found.inactive_split_bytes,
        false);
    model.ooms = model.reset_accumulated ? 0 : model.ooms;
    model.reset_peak = false;
    model.reset_accumulated = false;
    if (!read) {
      return;
    }
    require(stats.num_ooms == model.ooms, "num_ooms");
    require(stats.num_alloc_retries >= model.ooms, "num_alloc_retries");
    require(
        stats.oversize_allocations.current ==
            std::count_if(
                live_.begin(),
                live_.end(),
                [&](const Live& block) {
                  return block.device == device &&
                      traits_.config.roundSize(block.requested) >=
                      traits_.config.max_split_size;
                }),
        "oversize_allocations");
  }

  // Frees everything; nothing may remain.
  void finish() {
    target_.clearFault();
    while (!live_.empty()) {
      before_ = target_.snapshot();
      freeBlock(live_.size() - 1);
    }
    target_.emptyCache();
    require(target_.snapshot().empty(), "memory is lost");
    verify();
  }

  Target& target_;
  const Traits traits_;
  std::vector<DeviceModel> devices_;
  std::vector<Live> live_;
  std::vector<Live> held_; // as far as the model can tell
  std::vector<SegmentInfo> before_;
  uint64_t verifications_ = 0;
};

inline std::optional<std::string> variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::nullopt
                          : std::make_optional<std::string>(value);
}

/// Carries out random runs on fresh targets and returns the report of the first
/// one that fails, made short, else nothing.
template <class MakeTarget>
std::optional<std::string> runModel(
    MakeTarget make,
    uint64_t seed,
    size_t runs,
    size_t length) {
  using Target = typename decltype(make())::element_type;
  const auto check = [&](const Run& run) {
    const auto target = make();
    return Model<Target>::check(*target, run);
  };
  if (const auto replay = variable("XPU_ALLOCATOR_MODEL_REPLAY")) {
    return check(fromString(*replay));
  }
  if (const auto text = variable("XPU_ALLOCATOR_MODEL_SEED")) {
    seed = std::stoull(*text);
    runs = 1;
  }
  if (const auto text = variable("XPU_ALLOCATOR_MODEL_OPS")) {
    length = std::stoull(*text);
  }
  for (uint64_t i = 0; i < runs; ++i) {
    Run run = randomRun(seed + i, length);
    auto error = check(run);
    if (!error) {
      continue;
    }
    const std::string first = *error;
    for (size_t part = run.size() / 2; part > 0; part /= 2) {
      for (size_t at = 0; at < run.size();) {
        Run shorter(run.begin(), run.begin() + static_cast<ptrdiff_t>(at));
        shorter.insert(
            shorter.end(),
            run.begin() +
                static_cast<ptrdiff_t>(std::min(at + part, run.size())),
            run.end());
        if (auto still = check(shorter)) {
          run = std::move(shorter);
          error = still;
        } else {
          at += part;
        }
      }
    }
    return "seed " + std::to_string(seed + i) + ": " + first +
        "\nshortened to: " + *error + "\nXPU_ALLOCATOR_MODEL_REPLAY='" +
        toString(run) + "'";
  }
  return std::nullopt;
}

} // namespace c10::xpu::impl::model
