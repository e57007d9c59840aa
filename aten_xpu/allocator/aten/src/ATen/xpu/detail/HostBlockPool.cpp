#include <ATen/xpu/detail/HostBlockPool.h>

#include <c10/util/Exception.h>
#include <c10/util/irange.h>
#include <c10/util/llvmMathExtras.h>
#include <c10/xpu/XPUException.h>

#include <algorithm>
#include <exception>
#include <utility>

namespace at {
namespace xpu {
namespace detail {

// Note [Reuse of pinned host blocks]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// An asynchronous copy returns before it has read or written its host memory.
// The block must therefore outlive the copy even when the tensor does not: the
// host would otherwise write into memory that a device still reads.
//
//                 allocate             free, no use recorded
//     (system) ----------> in use --------------------------> ready
//         ^                 ^  |                              |  ^
//         |                 |  | free, uses recorded          |  | all events
//         |                 |  +--------------> waiting ------|--+ complete
//         |                 +---------------------------------+
//         +------- emptyCache, out of memory: ready blocks ---+
//
// record() submits a barrier to the stream at once and keeps its event, one per
// stream: the queue is in order, so a later barrier stands for the earlier
// ones. Doing this at the time of the copy and not in free() has two reasons.
// The event covers the copy and not what the stream is given afterwards; and an
// error reaches the caller, while a deleter could only terminate. If the
// barrier cannot be submitted the use stays, without an event, and submitting
// is tried again when the block is looked at. A block with such a use never
// gets ready.
//
// Events are looked at when an allocation finds no ready block, oldest block
// first, until one is complete; an allocation never waits for a stream. On one
// stream a barrier cannot be complete before an earlier one, so a stream that
// was seen to be busy at some barrier is not asked about later ones: usually
// one query per busy stream decides.
//
// Sizes are rounded up to four steps per power of two, which wastes at most a
// quarter (a fifth of the block), and a request takes a ready block of its own
// size or of the three next ones, less than twice its size.
//
// Locks, in the order in which they may be held together:
//   Bin::reclaim_mutex   while the events of a bin are queried
//   HostBlock::mutex     while a barrier is submitted or an event is queried
//   Bin::mutex           a few instructions
//   the registry's       shared to find a block; exclusive around changes
// An allocation that hits and a free without uses take Bin::mutex and
// HostBlock::mutex, one after the other, and nothing else.

namespace {

constexpr uint32_t kMinShift = 9;
constexpr uint32_t kStepShift = 2;
constexpr uint32_t kSteps = 1u << kStepShift;
// How many bins, from its own upwards, may serve a request.
constexpr uint32_t kSearchBins = kSteps;

void warnDoubleFree(const void* ptr) noexcept {
  // A warning can be turned into an exception by its handler.
  try {
    TORCH_WARN("The pinned host block at ", ptr, " was freed twice; ignored.");
  } catch (...) { // NOLINT(bugprone-empty-catch): a deleter cannot raise
  }
}

// The earliest barrier that a stream is known not to have reached.
struct BusyStream {
  c10::xpu::XPUStream stream;
  uint64_t sequence;
};
using BusyStreams = c10::SmallVector<BusyStream, 4>;

std::atomic<uint64_t> next_sequence{1};

void submitBarrier(HostBlockUse& use) {
  use.event.reset();
  // Before the barrier: the number may then be too small for its place in the
  // queue, by which a finished block is overlooked once, but never too large.
  use.sequence = next_sequence.fetch_add(1, std::memory_order_relaxed);
  use.event = C10_XPU_CHECK(use.stream.queue().ext_oneapi_submit_barrier());
}

bool isComplete(const HostBlockUse& use, BusyStreams& busy) {
  for (const auto& known : busy) {
    if (known.stream == use.stream && use.sequence >= known.sequence) {
      return false;
    }
  }
  using Status = sycl::info::event::command_execution_status;
  if (C10_XPU_CHECK(use.event->get_info<Status>()) ==
      sycl::info::event_command_status::complete) {
    return true;
  }
  busy.push_back({use.stream, use.sequence});
  return false;
}

// Whether no stream uses the block any more. Drops the uses that are over.
bool isReady(HostBlock& block, BusyStreams& busy) {
  std::lock_guard<std::mutex> lock(block.mutex);
  while (!block.uses.empty()) {
    auto& use = block.uses.back();
    if (!use.event) {
      submitBarrier(use);
    }
    if (!isComplete(use, busy)) {
      return false;
    }
    block.uses.pop_back();
  }
  return true;
}

} // namespace

uint32_t HostBlockPool::binOf(size_t size) {
  if (size <= (size_t(1) << kMinShift)) {
    return 0;
  }
  const uint64_t last = size - 1;
  const uint32_t octave = c10::llvm::Log2_64(last);
  const uint32_t step = (last >> (octave - kStepShift)) & (kSteps - 1);
  return (octave - kMinShift) * kSteps + step + 1;
}

size_t HostBlockPool::sizeOfBin(uint32_t bin) {
  if (bin == 0) {
    return size_t(1) << kMinShift;
  }
  const uint32_t octave = (bin - 1) / kSteps + kMinShift;
  const size_t step = (bin - 1) % kSteps + 1;
  return (kSteps + step) << (octave - kStepShift);
}

HostBlock* HostBlockPool::allocate(size_t size) {
  if (C10_UNLIKELY(size > kMaxSize)) {
    raiseOutOfMemory(size);
  }
  const uint32_t bin = binOf(size);
  HostBlock* block = takeCached(bin);
  if (!block) {
    block = allocateFromSystem(bin, size);
  }
  std::lock_guard<std::mutex> lock(block->mutex);
  block->in_use = true;
  return block;
}

void HostBlockPool::free(HostBlock* block) noexcept {
  bool used = false;
  {
    std::lock_guard<std::mutex> lock(block->mutex);
    if (C10_UNLIKELY(!block->in_use)) {
      // To go on as if it were the first free would hand the block out twice.
      warnDoubleFree(block->ptr);
      return;
    }
    block->in_use = false;
    used = !block->uses.empty();
  }
  if (used) {
    pushWaiting(block);
  } else {
    pushReady(block);
  }
}

bool HostBlockPool::record(void* ptr, void* ctx, c10::xpu::XPUStream stream) {
  HostBlock* block = registry_.find(ptr, ctx);
  if (!block) {
    return false;
  }
  std::lock_guard<std::mutex> lock(block->mutex);
  if (!block->in_use) {
    return false;
  }
  HostBlockUse* use = nullptr;
  for (auto& known : block->uses) {
    if (known.stream == stream) {
      use = &known;
    }
  }
  if (!use) {
    block->uses.push_back({stream, c10::nullopt, 0});
    use = &block->uses.back();
  }
  submitBarrier(*use);
  return true;
}

HostBlock* HostBlockPool::takeReady(uint32_t index) {
  auto& bin = bins_[index];
  if (bin.num_ready.load(std::memory_order_relaxed) == 0) {
    return nullptr;
  }
  std::lock_guard<std::mutex> lock(bin.mutex);
  HostBlock* block = bin.ready.popFront();
  if (block) {
    bin.num_ready.fetch_sub(1, std::memory_order_relaxed);
  }
  return block;
}

HostBlock* HostBlockPool::takeCached(uint32_t bin) {
  const uint32_t end = std::min(bin + kSearchBins, kNumBins);
  for (const auto i : c10::irange(bin, end)) {
    if (HostBlock* block = takeReady(i)) {
      return block;
    }
  }
  for (const auto i : c10::irange(bin, end)) {
    if (HostBlock* block = reclaim(i, Reclaim::FirstReady)) {
      return block;
    }
  }
  return nullptr;
}

// Looks at the waiting blocks of a bin. FirstReady: returns the first that is
// ready, or null. AllReady: moves all that are ready to the ready list and
// returns null. If a query raises, the rest is waiting as before.
HostBlock* HostBlockPool::reclaim(uint32_t index, Reclaim how) {
  auto& bin = bins_[index];
  if (bin.num_waiting.load(std::memory_order_relaxed) == 0) {
    return nullptr;
  }
  std::lock_guard<std::mutex> serial(bin.reclaim_mutex);
  HostBlockList todo;
  {
    std::lock_guard<std::mutex> lock(bin.mutex);
    std::swap(todo, bin.waiting);
  }

  HostBlockList ready;
  HostBlockList waiting;
  size_t num_ready = 0;
  HostBlock* block = nullptr;
  std::exception_ptr error;
  BusyStreams busy;
  try {
    while ((block = todo.popFront()) != nullptr) {
      if (!isReady(*block, busy)) {
        waiting.pushBack(block);
        continue;
      }
      ++num_ready;
      if (how == Reclaim::FirstReady) {
        break;
      }
      ready.pushBack(block);
    }
  } catch (...) {
    error = std::current_exception();
    waiting.pushBack(block);
    block = nullptr;
  }

  {
    // What was freed meanwhile is younger and goes behind.
    std::lock_guard<std::mutex> lock(bin.mutex);
    waiting.append(todo);
    waiting.append(bin.waiting);
    std::swap(bin.waiting, waiting);
    bin.ready.append(ready);
    bin.num_waiting.fetch_sub(num_ready, std::memory_order_relaxed);
    bin.num_ready.fetch_add(
        block ? num_ready - 1 : num_ready, std::memory_order_relaxed);
  }
  if (error) {
    std::rethrow_exception(error);
  }
  return block;
}

HostBlock* HostBlockPool::allocateFromSystem(uint32_t bin, size_t size) {
  try {
    if (HostBlock* block = registry_.allocate(bin, sizeOfBin(bin))) {
      return block;
    }
  } catch (const c10::Error&) { // NOLINT(bugprone-empty-catch)
    // Some runtimes raise where others return null. If it is something else
    // the second attempt raises it again.
  }
  emptyCache();
  HostBlock* block = registry_.allocate(bin, sizeOfBin(bin));
  if (!block) {
    raiseOutOfMemory(size);
  }
  return block;
}

void HostBlockPool::emptyCache() {
  std::exception_ptr error;
  for (const auto i : c10::irange(kNumBins)) {
    try {
      reclaim(i, Reclaim::AllReady);
    } catch (...) {
      error = std::current_exception();
    }
    HostBlockList kept;
    while (HostBlock* block = takeReady(i)) {
      try {
        registry_.release(block);
      } catch (...) {
        error = std::current_exception();
        kept.pushBack(block);
      }
    }
    while (HostBlock* block = kept.popFront()) {
      pushReady(block);
    }
  }
  if (error) {
    std::rethrow_exception(error);
  }
}

void HostBlockPool::pushReady(HostBlock* block) noexcept {
  auto& bin = bins_[block->bin];
  std::lock_guard<std::mutex> lock(bin.mutex);
  // In front: the memory that was touched last is handed out first.
  bin.ready.pushFront(block);
  bin.num_ready.fetch_add(1, std::memory_order_relaxed);
}

void HostBlockPool::pushWaiting(HostBlock* block) noexcept {
  auto& bin = bins_[block->bin];
  std::lock_guard<std::mutex> lock(bin.mutex);
  bin.waiting.pushBack(block);
  bin.num_waiting.fetch_add(1, std::memory_order_relaxed);
}

HostAllocatorStats HostBlockPool::stats() const {
  HostAllocatorStats result;
  for (const auto i : c10::irange(kNumBins)) {
    const size_t size = sizeOfBin(i);
    const auto& bin = bins_[i];
    result.cached_bytes += size * bin.num_ready.load(std::memory_order_relaxed);
    result.waiting_bytes +=
        size * bin.num_waiting.load(std::memory_order_relaxed);
  }
  registry_.addTo(result);
  return result;
}

void HostBlockPool::raiseOutOfMemory(size_t size) const {
  const HostAllocatorStats now = stats();
  TORCH_CHECK_WITH(
      OutOfMemoryError,
      false,
      "XPU: no pinned host memory for ",
      size,
      " bytes. Of pinned blocks ",
      now.in_use_bytes(),
      " bytes are in use, ",
      now.waiting_bytes,
      " bytes are freed but still used by a stream, and ",
      now.cached_bytes,
      " bytes are cached. Free pinned tensors, synchronize the streams that "
      "copy from them, or pin less at a time.");
}

} // namespace detail
} // namespace xpu
} // namespace at
