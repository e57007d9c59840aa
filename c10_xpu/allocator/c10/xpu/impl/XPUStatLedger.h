#pragma once

#include <c10/macros/Macros.h>
#include <c10/xpu/XPUAllocatorStats.h>
#include <c10/xpu/XPUMacros.h>
#include <c10/xpu/impl/XPUBlock.h>
#include <c10/xpu/impl/XPUSpinLock.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <mutex>
#include <vector>

namespace c10::xpu::impl {

// Note [Exact peaks without shared counters]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// The peak of, say, the allocated bytes of a device is the maximum over time of
// a sum over its arenas. A shared counter would give it, and would make every
// allocation of every thread write one cache line. Instead each arena counts
// for itself, under its own lock, and has for each statistic a `limit` that its
// value may reach without anybody being told. The ledger hands the limits out
// so that
//
//   (1) value <= limit in every arena,
//   (2) the sum of the limits <= the known peak.
//
// As long as (1) holds, no new peak can have happened. An operation that would
// break it settles: under the ledger's mutex, with the arenas stopped, the true
// sum is taken, the peak is raised to it if it is higher, and what lies between
// the sum and the peak is dealt out anew in equal parts. So a settlement is
// needed only for a real new peak or when an arena has used up its part.
//
// An arena that did nothing between two settlements is dropped from the dealing
// until it charges something again (its limits are set below any value), so
// that a settlement costs what the arenas in use cost, not what all streams
// that ever were would.
//
// Stopping the arenas must not deadlock: an operation settles while it holds
// its arena's lock, so two of them could wait for each other. Therefore an
// operation that is about to wait for the ledger's mutex marks its arena as
// `parked`. Whoever holds the mutex may then use the arena's counters as if he
// had locked it, until he releases the mutex.
//
// Readers stop the arenas the same way, so what they see is a state that the
// device was in.

/// The statistics that allocations and frees change.
enum StatIndex : size_t {
  kAllocation,
  kActive,
  kInactiveSplit,
  kAllocatedBytes,
  kActiveBytes,
  kInactiveSplitBytes,
  kNumStats
};

class StatLedger;

/// What an arena is to the ledger and to a block that points back to it. The
/// charge functions account for one operation; the caller holds the lock.
struct ArenaBase {
  explicit ArenaBase(StatLedger& ledger) : ledger_(ledger) {
    for (Account& account : accounts_) {
      account.limit = account.split_limit = {kFarBelow, kFarBelow};
      account.room = account.split_room = {kFarBelow, kFarBelow};
    }
  }
  ArenaBase(const ArenaBase&) = delete;
  ArenaBase& operator=(const ArenaBase&) = delete;

  SpinLock lock;

 protected:
  /// A number of things and the sum of their bytes.
  struct Amount {
    int64_t count = 0;
    int64_t bytes = 0;
  };

  /// A block of that many bytes was handed out. `splits` is the change of the
  /// free blocks in split segments.
  void chargeAllocate(Pool pool, int64_t bytes, Amount splits) {
    Account& mine = accounts_[index(pool)];
    Account& both = accounts_[kBoth];
    mine.room.count -= 1;
    mine.room.bytes -= bytes;
    both.room.count -= 1;
    both.room.bytes -= bytes;
    chargeSplits(mine, both, splits);
    finish(mine, both);
  }

  /// A block was freed and merged.
  void chargeFree(Pool pool, int64_t bytes, Amount splits) {
    Account& mine = accounts_[index(pool)];
    Account& both = accounts_[kBoth];
    unallocate(mine, both, bytes);
    chargeSplits(mine, both, splits);
    finish(mine, both);
  }

  /// A block was freed and is held back.
  void chargeHold(Pool pool, int64_t bytes) {
    Account& mine = accounts_[index(pool)];
    Account& both = accounts_[kBoth];
    unallocate(mine, both, bytes);
    for (Account* account : {&mine, &both}) {
      account->held.count += 1;
      account->held.bytes += bytes;
      // It still counts as active, so that less may be allocated beside it.
      account->limit.count -= 1;
      account->limit.bytes -= bytes;
      account->room.count -= 1;
      account->room.bytes -= bytes;
      account->lent.count += 1;
      account->lent.bytes += bytes;
    }
    finish(mine, both);
  }

  /// A block that was held back became free.
  void chargeUnhold(Pool pool, int64_t bytes, Amount splits) {
    Account& mine = accounts_[index(pool)];
    Account& both = accounts_[kBoth];
    for (Account* account : {&mine, &both}) {
      account->held.count -= 1;
      account->held.bytes -= bytes;
      const Amount back = {
          std::min<int64_t>(account->lent.count, 1),
          std::min(account->lent.bytes, bytes)};
      account->lent.count -= back.count;
      account->lent.bytes -= back.bytes;
      account->limit.count += back.count;
      account->limit.bytes += back.bytes;
      account->room.count += back.count;
      account->room.bytes += back.bytes;
    }
    chargeSplits(mine, both, splits);
    finish(mine, both);
  }

 private:
  friend class StatLedger;

  // What is counted of one pool, or of both. The values that change with every
  // allocation are not kept as such but as the room that is left up to their
  // limit, so that whether a limit is passed is a matter of signs:
  //   allocated = limit - room, splits = split_limit - split_room
  // `limit` is the lower one of the limits for allocated and, less what is held
  // back, for active blocks. `lent` is what blocks that were held back since
  // the limit was set have taken from it; those that come free give that much
  // back. `freed` counts allocations; those held back are not yet freed as
  // active blocks.
  struct Account {
    Amount room;
    Amount split_room;
    Amount freed;
    Amount splits_freed;
    Amount held;
    Amount lent;
    Amount limit;
    Amount split_limit;
  };

  static constexpr size_t kBoth = kNumPools;
  static constexpr size_t index(Pool pool) {
    return static_cast<size_t>(pool);
  }

  // The limit of an arena that takes no part in the dealing: below any value,
  // and far from overflow.
  static constexpr int64_t kFarBelow = std::numeric_limits<int64_t>::min() / 2;

  static void unallocate(Account& mine, Account& both, int64_t bytes) {
    mine.room.count += 1;
    mine.room.bytes += bytes;
    mine.freed.count += 1;
    mine.freed.bytes += bytes;
    both.room.count += 1;
    both.room.bytes += bytes;
  }

  static void chargeSplits(Account& mine, Account& both, Amount by) {
    mine.split_room.count -= by.count;
    mine.split_room.bytes -= by.bytes;
    both.split_room.count -= by.count;
    both.split_room.bytes -= by.bytes;
    if (by.count < 0) {
      mine.splits_freed.count -= by.count;
    }
    if (by.bytes < 0) {
      mine.splits_freed.bytes -= by.bytes;
    }
  }

  inline void finish(const Account& mine, const Account& both);

  // Guarded by the lock, or by the ledger's mutex while `parked_`.
  std::array<Account, kNumPools + 1> accounts_{};
  uint64_t charges_ = 0;
  // Guarded by the ledger's mutex.
  uint64_t charges_seen_ = 0;
  bool participant_ = false;
  std::array<std::array<int64_t, kNumStats>, kNumPools + 1> dropped_{};

  std::atomic<bool> parked_{false};
  StatLedger& ledger_;
};

/// The allocation statistics of one device. Thread safe.
class C10_XPU_API StatLedger final {
 public:
  void enlist(ArenaBase* arena);

  /// The current value over all arenas, of both pools together.
  int64_t current(StatIndex stat);

  /// Fills in the statistics that arenas keep.
  void read(XPUCachingAllocator::DeviceStats& stats);
  void resetPeak();
  void resetAccumulated();

  /// The largest number of bytes that were ever allocated at once; not affected
  /// by resetPeak.
  int64_t highWater() const noexcept {
    return high_water_.load(std::memory_order_relaxed);
  }

 private:
  friend struct ArenaBase;
  using Values = std::array<int64_t, kNumStats>;
  using Totals = std::array<Values, kNumPools + 1>; // both pools last

  void settle(ArenaBase* arena) noexcept;
  void raisePeak(const Totals& totals) noexcept;
  static void add(Totals& totals, const ArenaBase& arena) noexcept;
  static Values freed(const ArenaBase& arena, size_t pool) noexcept;
  static void setLimits(ArenaBase& arena, const Totals& limits) noexcept;
  std::array<Values, kNumPools> freedByPool() const noexcept;
  // Deals out `parts`-th parts of the slack, and the remainder too.
  void deal(
      ArenaBase& arena,
      const Totals& slack,
      int64_t parts,
      bool rest) noexcept;
  // Runs f(totals) with all arenas stopped.
  template <class F>
  void withAllStopped(F f);

  std::mutex mutex_;
  std::vector<ArenaBase*> arenas_;
  std::vector<ArenaBase*> participants_;
  // Reserved for the largest number of participants and of borrowed arenas, so
  // that settle cannot fail.
  std::vector<ArenaBase*> locked_;
  Totals idle_{}; // the sum of the arenas that are not participants
  Totals peak_{};
  std::array<Values, kNumPools> allocated_base_{};
  std::array<Values, kNumPools> freed_base_{};
  std::atomic<int64_t> high_water_{0};
};

inline void ArenaBase::finish(const Account& mine, const Account& both) {
  ++charges_;
  const int64_t signs = mine.room.count | mine.room.bytes | both.room.count |
      both.room.bytes | mine.split_room.count | mine.split_room.bytes |
      both.split_room.count | both.split_room.bytes;
  if (C10_UNLIKELY(signs < 0)) {
    ledger_.settle(this);
  }
}

} // namespace c10::xpu::impl
