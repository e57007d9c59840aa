#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/Device.h>
#include <c10/core/GeneratorImpl.h>
#include <c10/util/intrusive_ptr.h>

#include <cstdint>
#include <memory>
#include <utility>

namespace at {

// Note [Generator state]
// ~~~~~~~~~~~~~~~~~~~~~~
// Kernels draw from Philox4x32-10, a counter-based engine: a random number is a
// pure function of (seed, thread, position) and nothing is stored per thread or
// on the device. What a generator holds is therefore two 64-bit numbers on the
// host:
//
//   seed    the key of the engine.
//   offset  how many 32-bit numbers each thread has drawn so far. The engine
//           gives four at a time, so a kernel starts it as
//             at::Philox4_32(seed, /*subsequence=*/thread, offset / 4).
//
// A kernel that draws at most n numbers per thread asks for
// philox_engine_inputs(n): it receives the present seed and offset and the
// generator steps on by n. Two consequences:
//
//   - offset is a multiple of 4 at all times: n is rounded up, and a foreign
//     value is refused. With another offset the division above would make two
//     kernels share one group of four.
//   - The numbers do not depend on the device, on the stream, or on what other
//     devices drew. Same seed and offset: same numbers, on every ordinal and on
//     the CPU.
//
// The offset never wraps. A request that would pass the end of the 64-bit
// counter raises, since after it numbers would repeat.
//
// The serialised state is a contiguous one-dimensional byte tensor on the CPU:
//
//   byte 0..7    seed     native byte order
//   byte 8..15   offset   native byte order
//
// set_state checks the whole tensor before it changes anything.
//
// Locking: as for all generators, a caller holds the generator's mutex_ around
// the members that change or read more than one value, see
// Note [Acquire lock when using random generators]. The functions in
// at::xpu::detail below lock by themselves.

/// What a generator holds, and shares with no other.
struct C10_EXPORT XPUGeneratorState : public c10::intrusive_ptr_target {
  XPUGeneratorState(
      uint64_t seed = default_rng_seed_val,
      uint64_t philox_offset_per_thread = 0)
      : seed_(seed), philox_offset_per_thread_(philox_offset_per_thread) {}

  c10::intrusive_ptr<XPUGeneratorState> clone();

  uint64_t seed_;
  uint64_t philox_offset_per_thread_;
};

/// The random number generator of an XPU device. See Note [Generator state].
struct C10_EXPORT XPUGeneratorImpl final : public c10::GeneratorImpl {
  /// Starts with default_rng_seed_val and offset 0. The index is not checked;
  /// createXPUGenerator does that.
  explicit XPUGeneratorImpl(DeviceIndex device_index = -1);
  XPUGeneratorImpl(
      DeviceIndex device_index,
      c10::intrusive_ptr<XPUGeneratorState> state);
  ~XPUGeneratorImpl() override = default;

  /// An independent generator with the same device, seed and offset.
  std::shared_ptr<XPUGeneratorImpl> clone() const;

  /// Sets the seed and returns the offset to 0.
  void set_current_seed(uint64_t seed) override;
  uint64_t current_seed() const override;

  /// Seeds from the system's source of entropy and returns that seed, which
  /// fits a double exactly.
  uint64_t seed() override;

  /// Takes seed and offset from a state tensor. TypeError unless it is a dense
  /// byte tensor on the CPU; Error unless it is contiguous, has 16 bytes and an
  /// offset that is a multiple of 4. On an error the state is unchanged.
  void set_state(const c10::TensorImpl& new_state) override;

  /// The 16-byte state tensor.
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override;

  /// The number of 32-bit values each thread has drawn; a multiple of 4, else
  /// an Error.
  void set_philox_offset_per_thread(uint64_t offset);
  uint64_t philox_offset_per_thread() const;

  /// The same, as later releases of GeneratorImpl name them.
  void set_offset(uint64_t offset);
  uint64_t get_offset() const;

  /// Reserves `increment` 32-bit values per thread, rounded up to a multiple of
  /// 4, and returns {seed, offset before}. Error if the offset would overflow.
  std::pair<uint64_t, uint64_t> philox_engine_inputs(uint64_t increment);

  static DeviceType device_type();

 private:
  XPUGeneratorImpl* clone_impl() const override;
  c10::intrusive_ptr<XPUGeneratorState> state_;
};

namespace xpu {
namespace detail {

/// The default generator of a device; -1 is the current device. It is created
/// with a random seed at the first request, once, whichever thread comes first,
/// and lives until the process ends. Error if there is no such device.
C10_EXPORT const Generator& getDefaultXPUGenerator(
    DeviceIndex device_index = -1);

/// A new generator with default_rng_seed_val and offset 0; -1 is the current
/// device. Error if there is no such device.
C10_EXPORT Generator createXPUGenerator(DeviceIndex device_index = -1);

} // namespace detail
} // namespace xpu
} // namespace at
