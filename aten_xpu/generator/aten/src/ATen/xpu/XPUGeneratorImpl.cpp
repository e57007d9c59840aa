#include <ATen/EmptyTensor.h>
#include <ATen/xpu/XPUGeneratorImpl.h>
#include <c10/core/TensorImpl.h>
#include <c10/util/CallOnce.h>
#include <c10/util/Exception.h>
#include <c10/xpu/XPUFunctions.h>

#include <cstring>
#include <limits>
#include <utility>
#include <vector>

namespace at {

namespace {

// Numbers that the engine gives at a time. See Note [Generator state].
constexpr uint64_t kPhiloxGroup = 4;

constexpr size_t kSeedBytes = sizeof(uint64_t);
constexpr size_t kOffsetBytes = sizeof(uint64_t);
constexpr size_t kStateBytes = kSeedBytes + kOffsetBytes;

void checkPhiloxOffset(uint64_t offset) {
  TORCH_CHECK(
      offset % kPhiloxGroup == 0,
      "The Philox offset of an XPU generator must be a multiple of ",
      kPhiloxGroup,
      ", got ",
      offset,
      ". Use a value that philox_offset_per_thread() returned, or round up.");
}

void checkStateTensor(const c10::TensorImpl& state) {
  TORCH_CHECK_TYPE(
      state.layout() == kStrided && state.device().is_cpu() &&
          state.dtype() == kByte,
      "The state of an XPU generator must be a dense torch.uint8 tensor on the "
      "cpu, got a ",
      state.layout(),
      " tensor of ",
      state.dtype(),
      " on ",
      state.device(),
      ". Pass what get_state() returned, moved to the cpu.");
  TORCH_CHECK(
      state.numel() == static_cast<int64_t>(kStateBytes),
      "The state of an XPU generator has ",
      kStateBytes,
      " bytes, got a tensor of ",
      state.numel(),
      ". The state of a generator of another device type cannot be used here.");
  TORCH_CHECK(
      state.is_contiguous(),
      "The state of an XPU generator must be contiguous, got strides ",
      state.strides(),
      ". Call contiguous() on it first.");
}

} // namespace

c10::intrusive_ptr<XPUGeneratorState> XPUGeneratorState::clone() {
  return c10::make_intrusive<XPUGeneratorState>(
      seed_, philox_offset_per_thread_);
}

XPUGeneratorImpl::XPUGeneratorImpl(DeviceIndex device_index)
    : XPUGeneratorImpl(device_index, c10::make_intrusive<XPUGeneratorState>()) {
}

XPUGeneratorImpl::XPUGeneratorImpl(
    DeviceIndex device_index,
    c10::intrusive_ptr<XPUGeneratorState> state)
    : c10::GeneratorImpl(
          Device(kXPU, device_index),
          DispatchKeySet(c10::DispatchKey::XPU)),
      state_(std::move(state)) {}

void XPUGeneratorImpl::set_current_seed(uint64_t seed) {
  state_->seed_ = seed;
  state_->philox_offset_per_thread_ = 0;
}

uint64_t XPUGeneratorImpl::current_seed() const {
  return state_->seed_;
}

uint64_t XPUGeneratorImpl::seed() {
  // `true` selects the source that is limited to 53 bits, so that the seed
  // survives a trip through Python's float and JSON.
  const uint64_t random = c10::detail::getNonDeterministicRandom(true);
  set_current_seed(random);
  return random;
}

c10::intrusive_ptr<c10::TensorImpl> XPUGeneratorImpl::get_state() const {
  auto state = at::detail::empty_cpu(
      {static_cast<int64_t>(kStateBytes)}, ScalarType::Byte);
  auto* bytes = state.data_ptr<uint8_t>();
  std::memcpy(bytes, &state_->seed_, kSeedBytes);
  std::memcpy(
      bytes + kSeedBytes, &state_->philox_offset_per_thread_, kOffsetBytes);
  return state.getIntrusivePtr();
}

void XPUGeneratorImpl::set_state(const c10::TensorImpl& new_state) {
  checkStateTensor(new_state);
  const auto* bytes = static_cast<const uint8_t*>(new_state.data());
  uint64_t seed = 0;
  uint64_t offset = 0;
  std::memcpy(&seed, bytes, kSeedBytes);
  std::memcpy(&offset, bytes + kSeedBytes, kOffsetBytes);
  checkPhiloxOffset(offset);
  state_->seed_ = seed;
  state_->philox_offset_per_thread_ = offset;
}

void XPUGeneratorImpl::set_philox_offset_per_thread(uint64_t offset) {
  checkPhiloxOffset(offset);
  state_->philox_offset_per_thread_ = offset;
}

uint64_t XPUGeneratorImpl::philox_offset_per_thread() const {
  return state_->philox_offset_per_thread_;
}

void XPUGeneratorImpl::set_offset(uint64_t offset) {
  set_philox_offset_per_thread(offset);
}

uint64_t XPUGeneratorImpl::get_offset() const {
  return state_->philox_offset_per_thread_;
}

std::pair<uint64_t, uint64_t> XPUGeneratorImpl::philox_engine_inputs(
    uint64_t increment) {
  // The last multiple of the group is the end: what is left of the counter is
  // itself a multiple of it, so the comparison covers the rounding as well.
  constexpr uint64_t kEnd =
      std::numeric_limits<uint64_t>::max() / kPhiloxGroup * kPhiloxGroup;
  const uint64_t offset = state_->philox_offset_per_thread_;
  TORCH_CHECK(
      increment <= kEnd - offset,
      "The XPU generator with seed ",
      state_->seed_,
      " is at offset ",
      offset,
      " and cannot give ",
      increment,
      " more numbers per thread: at most ",
      kEnd - offset,
      " are left. Set a new seed.");
  state_->philox_offset_per_thread_ =
      offset + (increment + kPhiloxGroup - 1) / kPhiloxGroup * kPhiloxGroup;
  return {state_->seed_, offset};
}

DeviceType XPUGeneratorImpl::device_type() {
  return kXPU;
}

std::shared_ptr<XPUGeneratorImpl> XPUGeneratorImpl::clone() const {
  return std::make_shared<XPUGeneratorImpl>(device().index(), state_->clone());
}

namespace xpu {
namespace detail {

namespace {

struct DefaultGenerator {
  c10::once_flag created;
  Generator generator;
};

// A generator is two numbers on the host, and a forked child may use it though
// it cannot use the device: programs that fork seed everything in the child.
DeviceIndex resolveDevice(DeviceIndex device_index) {
  const auto count = c10::xpu::device_count_across_fork();
  if (device_index == -1 && count > 0) {
    return c10::xpu::impl::threadDevice();
  }
  if (device_index < 0 || device_index >= count) {
    c10::xpu::check_device_index(device_index);
  }
  return device_index;
}

// The slot of a device. Never destroyed: a kernel that runs while the process
// ends may still draw.
DefaultGenerator& slotOf(DeviceIndex device) {
  static auto* slots =
      new std::vector<DefaultGenerator>(c10::xpu::device_count_across_fork());
  return (*slots)[device];
}

} // namespace

const Generator& getDefaultXPUGenerator(DeviceIndex device_index) {
  auto& slot = slotOf(resolveDevice(device_index));
  c10::call_once(slot.created, [&] {
    auto generator = createXPUGenerator(device_index);
    generator.seed();
    slot.generator = std::move(generator);
  });
  return slot.generator;
}

Generator createXPUGenerator(DeviceIndex device_index) {
  return make_generator<XPUGeneratorImpl>(resolveDevice(device_index));
}

} // namespace detail
} // namespace xpu
} // namespace at
