#include <c10/xpu/impl/XPUStatLedger.h>

#include <c10/util/irange.h>

#include <algorithm>
#include <thread>

namespace c10::xpu::impl {

using XPUCachingAllocator::DeviceStats;
using XPUCachingAllocator::Stat;
using XPUCachingAllocator::StatArray;

namespace {

// Stops an arena on behalf of the holder of the ledger's mutex. Returns whether
// the arena's lock was taken; otherwise its owner is waiting for the mutex.
bool stop(SpinLock& lock, const std::atomic<bool>& parked) noexcept {
  while (!lock.try_lock()) {
    if (parked.load(std::memory_order_acquire)) {
      return false;
    }
    std::this_thread::yield();
  }
  return true;
}

} // namespace

void StatLedger::enlist(ArenaBase* arena) {
  std::lock_guard<std::mutex> guard(mutex_);
  arenas_.reserve(arenas_.size() + 1);
  participants_.reserve(arenas_.size() + 1);
  locked_.reserve(arenas_.size() + 1);
  arenas_.push_back(arena);
}

void StatLedger::add(Totals& totals, const ArenaBase& arena) noexcept {
  for (const auto kind : c10::irange(totals.size())) {
    const auto& account = arena.accounts_[kind];
    Values& values = totals[kind];
    const int64_t count = account.limit.count - account.room.count;
    const int64_t bytes = account.limit.bytes - account.room.bytes;
    values[kAllocation] += count;
    values[kActive] += count + account.held.count;
    values[kInactiveSplit] +=
        account.split_limit.count - account.split_room.count;
    values[kAllocatedBytes] += bytes;
    values[kActiveBytes] += bytes + account.held.bytes;
    values[kInactiveSplitBytes] +=
        account.split_limit.bytes - account.split_room.bytes;
  }
}

StatLedger::Values StatLedger::freed(
    const ArenaBase& arena,
    size_t pool) noexcept {
  const auto& account = arena.accounts_[pool];
  Values values{};
  values[kAllocation] = account.freed.count;
  values[kActive] = account.freed.count - account.held.count;
  values[kInactiveSplit] = account.splits_freed.count;
  values[kAllocatedBytes] = account.freed.bytes;
  values[kActiveBytes] = account.freed.bytes - account.held.bytes;
  values[kInactiveSplitBytes] = account.splits_freed.bytes;
  return values;
}

// Changes the limits, but not the values.
void StatLedger::setLimits(ArenaBase& arena, const Totals& limits) noexcept {
  for (const auto kind : c10::irange(limits.size())) {
    auto& account = arena.accounts_[kind];
    const auto move = [](ArenaBase::Amount& limit,
                         ArenaBase::Amount& room,
                         ArenaBase::Amount to) {
      room.count += to.count - limit.count;
      room.bytes += to.bytes - limit.bytes;
      limit = to;
    };
    const Values& to = limits[kind];
    move(
        account.limit,
        account.room,
        {std::min(to[kAllocation], to[kActive] - account.held.count),
         std::min(to[kAllocatedBytes], to[kActiveBytes] - account.held.bytes)});
    account.lent = {};
    move(
        account.split_limit,
        account.split_room,
        {to[kInactiveSplit], to[kInactiveSplitBytes]});
  }
}

// Raises or lowers the arena's limits to its values and its part of the slack.
void StatLedger::deal(
    ArenaBase& arena,
    const Totals& slack,
    int64_t parts,
    bool rest) noexcept {
  Totals limits{};
  add(limits, arena);
  for (const auto kind : c10::irange(limits.size())) {
    for (const auto i : c10::irange(static_cast<size_t>(kNumStats))) {
      const int64_t all = slack[kind][i];
      if (parts == 1) { // most often; divisions would be most of the cost
        limits[kind][i] += all;
      } else if (all != 0) {
        limits[kind][i] += all / parts + (rest ? all % parts : 0);
      }
    }
  }
  setLimits(arena, limits);
}

void StatLedger::raisePeak(const Totals& totals) noexcept {
  for (const auto kind : c10::irange(totals.size())) {
    for (const auto i : c10::irange(static_cast<size_t>(kNumStats))) {
      peak_[kind][i] = std::max(peak_[kind][i], totals[kind][i]);
    }
  }
  high_water_.store(
      std::max(highWater(), peak_[kNumPools][kAllocatedBytes]),
      std::memory_order_relaxed);
}

void StatLedger::settle(ArenaBase* arena) noexcept {
  arena->parked_.store(true, std::memory_order_release);
  std::lock_guard<std::mutex> guard(mutex_);
  arena->parked_.store(false, std::memory_order_relaxed);

  if (!arena->participant_) {
    // Its counters already hold this operation; idle_ has them as they were.
    arena->participant_ = true;
    participants_.push_back(arena);
    for (const auto kind : c10::irange(idle_.size())) {
      for (const auto i : c10::irange(static_cast<size_t>(kNumStats))) {
        idle_[kind][i] -= arena->dropped_[kind][i];
      }
    }
  }

  locked_.clear();
  Totals totals = idle_;
  for (ArenaBase* other : participants_) {
    if (other != arena && stop(other->lock, other->parked_)) {
      locked_.push_back(other);
    }
    add(totals, *other);
  }
  raisePeak(totals);

  // Drop those that have been idle since the last settlement.
  const auto was_idle = [&](ArenaBase* other) {
    if (other != arena && other->charges_ == other->charges_seen_) {
      other->participant_ = false;
      other->dropped_ = Totals{};
      add(other->dropped_, *other);
      add(idle_, *other);
      Totals far_below{};
      for (Values& values : far_below) {
        values.fill(ArenaBase::kFarBelow);
      }
      setLimits(*other, far_below);
      return true;
    }
    other->charges_seen_ = other->charges_;
    return false;
  };
  participants_.erase(
      std::remove_if(participants_.begin(), participants_.end(), was_idle),
      participants_.end());

  Totals slack = peak_;
  for (const auto kind : c10::irange(slack.size())) {
    for (const auto i : c10::irange(static_cast<size_t>(kNumStats))) {
      slack[kind][i] -= totals[kind][i];
    }
  }
  const auto parts = static_cast<int64_t>(participants_.size());
  for (ArenaBase* other : participants_) {
    deal(*other, slack, parts, other == arena);
  }

  for (ArenaBase* other : locked_) {
    other->lock.unlock();
  }
}

template <class F>
void StatLedger::withAllStopped(F f) {
  std::lock_guard<std::mutex> guard(mutex_);
  locked_.clear();
  Totals totals{};
  for (ArenaBase* arena : arenas_) {
    if (stop(arena->lock, arena->parked_)) {
      locked_.push_back(arena);
    }
    add(totals, *arena);
  }
  // An arena that is parked has charged an operation that it could not settle
  // yet. It is part of the totals, so that the peak has to know it.
  raisePeak(totals);
  f(totals);
  for (ArenaBase* arena : locked_) {
    arena->lock.unlock();
  }
}

int64_t StatLedger::current(StatIndex stat) {
  int64_t value = 0;
  withAllStopped(
      [&](const Totals& totals) { value = totals[kNumPools][stat]; });
  return value;
}

std::array<StatLedger::Values, kNumPools> StatLedger::freedByPool()
    const noexcept {
  std::array<Values, kNumPools> sums{};
  for (const ArenaBase* arena : arenas_) {
    for (const auto pool : c10::irange(kNumPools)) {
      const Values values = freed(*arena, pool);
      for (const auto i : c10::irange(static_cast<size_t>(kNumStats))) {
        sums[pool][i] += values[i];
      }
    }
  }
  return sums;
}

void StatLedger::read(DeviceStats& stats) {
  const std::array<StatArray*, kNumStats> arrays = {
      &stats.allocation,
      &stats.active,
      &stats.inactive_split,
      &stats.allocated_bytes,
      &stats.active_bytes,
      &stats.inactive_split_bytes};
  withAllStopped([&](const Totals& totals) {
    const auto freed_now = freedByPool();
    for (const auto i : c10::irange(static_cast<size_t>(kNumStats))) {
      StatArray& array = *arrays[i];
      for (const auto pool : c10::irange(kNumPools)) {
        const int64_t freed = freed_now[pool][i];
        Stat& stat = array[pool + 1];
        stat.allocated = totals[pool][i] + freed - allocated_base_[pool][i];
        stat.freed = freed - freed_base_[pool][i];
        array[0].allocated += stat.allocated;
        array[0].freed += stat.freed;
      }
      for (const auto kind : c10::irange(totals.size())) {
        Stat& stat = array[(kind + 1) % totals.size()];
        stat.current = totals[kind][i];
        stat.peak = peak_[kind][i];
      }
    }
  });
}

void StatLedger::resetPeak() {
  withAllStopped([&](const Totals& totals) {
    peak_ = totals;
    // No arena may keep a limit that was dealt out below the old peak.
    for (ArenaBase* arena : arenas_) {
      if (arena->participant_) {
        deal(*arena, Totals{}, 1, false);
      }
    }
  });
}

void StatLedger::resetAccumulated() {
  withAllStopped([&](const Totals& totals) {
    freed_base_ = freedByPool();
    for (const auto pool : c10::irange(kNumPools)) {
      for (const auto i : c10::irange(static_cast<size_t>(kNumStats))) {
        allocated_base_[pool][i] = totals[pool][i] + freed_base_[pool][i];
      }
    }
  });
}

} // namespace c10::xpu::impl
