#pragma once

#include <c10/macros/Macros.h>

#include <atomic>
#include <thread>

namespace c10::xpu::impl {

/// The lock of an arena. Its critical sections are some tens of instructions
/// (reports are longer) and never wait for a device, so that an uncontended
/// lock (one atomic exchange, one plain store) matters more than a queue of
/// waiters. Waiters yield, so that a holder that lost its processor can go on.
class SpinLock final {
 public:
  C10_ALWAYS_INLINE void lock() noexcept {
    if (C10_UNLIKELY(!try_lock())) {
      wait();
    }
  }

  bool try_lock() noexcept {
    return !locked_.exchange(true, std::memory_order_acquire);
  }

  void unlock() noexcept {
    locked_.store(false, std::memory_order_release);
  }

 private:
  C10_NOINLINE void wait() noexcept {
    do {
      for (int i = 0; locked_.load(std::memory_order_relaxed); ++i) {
        if (i >= kSpins) {
          std::this_thread::yield();
        }
      }
    } while (!try_lock());
  }

  static constexpr int kSpins = 128;
  std::atomic<bool> locked_{false};
};

} // namespace c10::xpu::impl
