#include <c10/xpu/test/impl/XPUTestUtil.h>

#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <ATen/core/PhiloxRNGEngine.h>
#include <ATen/core/Tensor.h>
#include <ATen/xpu/XPUGeneratorImpl.h>
#include <c10/util/irange.h>

#include <array>
#include <cstring>
#include <limits>
#include <mutex>
#include <set>
#include <string>
#include <vector>

using at::Generator;
using at::XPUGeneratorImpl;
using at::xpu::detail::createXPUGenerator;
using at::xpu::detail::getDefaultXPUGenerator;
using c10::DeviceIndex;
using c10::xpu::device_count;
using namespace c10::xpu::test;

namespace {

constexpr uint64_t kMaxOffset = std::numeric_limits<uint64_t>::max() - 3;

XPUGeneratorImpl* implOf(const Generator& generator) {
  return at::check_generator<XPUGeneratorImpl>(generator);
}

// What a kernel would draw: `count` numbers in each of some threads.
std::vector<uint32_t> draw(XPUGeneratorImpl* generator, size_t count) {
  const auto inputs = generator->philox_engine_inputs(count);
  std::vector<uint32_t> numbers;
  for (const auto thread : c10::irange(3)) {
    at::Philox4_32 engine(inputs.first, thread, inputs.second / 4);
    for (const auto i : c10::irange(count)) {
      (void)i;
      numbers.push_back(engine());
    }
  }
  return numbers;
}

at::Tensor byteTensor(uint64_t seed, uint64_t offset) {
  XPUGeneratorImpl source(0);
  at::Tensor state(source.get_state());
  auto* bytes = state.data_ptr<uint8_t>();
  std::memcpy(bytes, &seed, 8);
  std::memcpy(bytes + 8, &offset, 8);
  return state;
}

} // namespace

// The state machine needs no device: these run under every mapping.

TEST(XPUGeneratorTest, StartsWithTheDefaultSeed) {
  XPUGeneratorImpl generator(0);
  EXPECT_EQ(generator.current_seed(), c10::default_rng_seed_val);
  EXPECT_EQ(generator.philox_offset_per_thread(), 0);
  EXPECT_EQ(generator.device(), c10::Device(c10::kXPU, 0));
  EXPECT_EQ(XPUGeneratorImpl::device_type(), c10::kXPU);
  EXPECT_TRUE(generator.key_set().has(c10::DispatchKey::XPU));
}

TEST(XPUGeneratorTest, SeedingResetsTheOffset) {
  XPUGeneratorImpl generator(0);
  generator.philox_engine_inputs(8);
  EXPECT_EQ(generator.philox_offset_per_thread(), 8);
  generator.set_current_seed(42);
  EXPECT_EQ(generator.current_seed(), 42);
  EXPECT_EQ(generator.philox_offset_per_thread(), 0);
}

TEST(XPUGeneratorTest, SeedIsRandomAndFitsADouble) {
  XPUGeneratorImpl generator(0);
  std::set<uint64_t> seeds;
  for (const auto i : c10::irange(8)) {
    (void)i;
    generator.philox_engine_inputs(4);
    const uint64_t seed = generator.seed();
    EXPECT_EQ(generator.current_seed(), seed);
    EXPECT_EQ(generator.philox_offset_per_thread(), 0);
    EXPECT_EQ(static_cast<uint64_t>(static_cast<double>(seed)), seed);
    seeds.insert(seed);
  }
  EXPECT_EQ(seeds.size(), 8);
}

TEST(XPUGeneratorTest, IncrementIsRoundedUpToFour) {
  XPUGeneratorImpl generator(0);
  generator.set_current_seed(7);
  uint64_t expected = 0;
  for (uint64_t increment : {0, 1, 2, 3, 4, 5, 8, 1001}) {
    const auto inputs = generator.philox_engine_inputs(increment);
    EXPECT_EQ(inputs.first, 7);
    EXPECT_EQ(inputs.second, expected) << "increment " << increment;
    expected += (increment + 3) / 4 * 4;
    EXPECT_EQ(generator.philox_offset_per_thread(), expected);
  }
}

TEST(XPUGeneratorTest, OffsetMustBeAMultipleOfFour) {
  XPUGeneratorImpl generator(0);
  generator.set_philox_offset_per_thread(8);
  EXPECT_EQ(generator.philox_offset_per_thread(), 8);
  for (uint64_t offset : {1, 2, 3, 9}) {
    const std::string error =
        errorOf([&] { generator.set_philox_offset_per_thread(offset); });
    EXPECT_CONTAINS(error, "multiple of 4");
    EXPECT_CONTAINS(error, std::to_string(offset));
  }
  EXPECT_EQ(generator.philox_offset_per_thread(), 8);
}

TEST(XPUGeneratorTest, OffsetDoesNotWrap) {
  XPUGeneratorImpl generator(0);
  generator.set_philox_offset_per_thread(kMaxOffset - 8);
  EXPECT_THROW(
      generator.philox_engine_inputs(std::numeric_limits<uint64_t>::max()),
      c10::Error);
  EXPECT_THROW(generator.philox_engine_inputs(9), c10::Error);
  EXPECT_EQ(generator.philox_offset_per_thread(), kMaxOffset - 8);
  EXPECT_EQ(generator.philox_engine_inputs(7).second, kMaxOffset - 8);
  EXPECT_EQ(generator.philox_offset_per_thread(), kMaxOffset);
  EXPECT_EQ(generator.philox_engine_inputs(0).second, kMaxOffset);
  const std::string error = errorOf([&] { generator.philox_engine_inputs(1); });
  EXPECT_CONTAINS(error, "Set a new seed");
}

TEST(XPUGeneratorTest, StateRoundTrip) {
  XPUGeneratorImpl source(0);
  source.set_current_seed(0x0123456789abcdefULL);
  source.set_philox_offset_per_thread(0xfedcba9876543210ULL);
  at::Tensor state(source.get_state());
  ASSERT_EQ(state.dim(), 1);
  ASSERT_EQ(state.numel(), 16);
  EXPECT_EQ(state.scalar_type(), at::kByte);
  EXPECT_TRUE(state.device().is_cpu());
  // Seed first, then offset, in native byte order.
  std::array<uint64_t, 2> words{};
  std::memcpy(words.data(), state.data_ptr<uint8_t>(), sizeof(words));
  EXPECT_EQ(words[0], 0x0123456789abcdefULL);
  EXPECT_EQ(words[1], 0xfedcba9876543210ULL);

  const auto next = draw(&source, 5);
  XPUGeneratorImpl target(0);
  target.set_state(*state.unsafeGetTensorImpl());
  EXPECT_EQ(target.current_seed(), 0x0123456789abcdefULL);
  EXPECT_EQ(target.philox_offset_per_thread(), 0xfedcba9876543210ULL);
  EXPECT_EQ(draw(&target, 5), next);
  // The state is a copy.
  EXPECT_EQ(std::memcmp(words.data(), state.data_ptr<uint8_t>(), 16), 0);
}

TEST(XPUGeneratorTest, BadStatesAreRefusedWhole) {
  XPUGeneratorImpl generator(0);
  generator.set_current_seed(11);
  generator.set_philox_offset_per_thread(12);
  const auto refused = [&](const at::TensorBase& state) {
    const std::string error =
        errorOf([&] { generator.set_state(*state.unsafeGetTensorImpl()); });
    EXPECT_EQ(generator.current_seed(), 11);
    EXPECT_EQ(generator.philox_offset_per_thread(), 12);
    return error;
  };

  std::string error = refused(byteTensor(1, 6));
  EXPECT_CONTAINS(error, "multiple of 4");

  for (int64_t size : {0, 8, 15, 17, 5056}) {
    error = refused(at::detail::empty_cpu({size}, at::kByte));
    EXPECT_CONTAINS(error, "16 bytes");
    EXPECT_CONTAINS(error, std::to_string(size));
  }

  const auto of_floats = at::detail::empty_cpu({16}, at::kFloat);
  error = refused(of_floats);
  EXPECT_CONTAINS(error, "float");
  EXPECT_THROW(
      generator.set_state(*of_floats.unsafeGetTensorImpl()), c10::TypeError);

  const auto elsewhere = at::detail::empty_meta({16}, at::kByte);
  error = refused(elsewhere);
  EXPECT_CONTAINS(error, "meta");

  const auto with_gaps = at::detail::empty_strided_cpu({16}, {2}, at::kByte);
  error = refused(with_gaps);
  EXPECT_CONTAINS(error, "contiguous");
}

TEST(XPUGeneratorTest, CloneIsIndependent) {
  auto original = at::make_generator<XPUGeneratorImpl>(DeviceIndex(0));
  auto* impl = implOf(original);
  impl->set_current_seed(123);
  impl->set_philox_offset_per_thread(4);
  Generator copy = original.clone();
  ASSERT_NE(copy, original);
  EXPECT_EQ(copy.device(), original.device());
  EXPECT_EQ(draw(implOf(copy), 6), draw(impl, 6));
  implOf(copy)->set_current_seed(5);
  EXPECT_EQ(impl->current_seed(), 123);
  EXPECT_EQ(impl->philox_offset_per_thread(), 12);

  // Else the copy is not deleted with the last reference to it.
  EXPECT_EQ(copy.getIntrusivePtr().use_count(), 1);
  EXPECT_EQ(copy.getIntrusivePtr().weak_use_count(), 1);

  const auto shared = impl->clone();
  EXPECT_EQ(shared->current_seed(), 123);
  EXPECT_EQ(shared->philox_offset_per_thread(), 12);
}

TEST(XPUGeneratorTest, OffsetHasTwoNames) {
  XPUGeneratorImpl generator(0);
  generator.set_offset(8);
  EXPECT_EQ(generator.philox_offset_per_thread(), 8);
  generator.philox_engine_inputs(4);
  EXPECT_EQ(generator.get_offset(), 12);
  EXPECT_THROW(generator.set_offset(3), c10::Error);
}

TEST(XPUGeneratorTest, ConsecutiveRequestsDoNotOverlap) {
  XPUGeneratorImpl generator(0);
  generator.set_current_seed(1);
  const auto first = draw(&generator, 6);
  const auto second = draw(&generator, 6);
  std::set<uint32_t> all(first.begin(), first.end());
  all.insert(second.begin(), second.end());
  EXPECT_EQ(all.size(), first.size() + second.size());
}

TEST(XPUGeneratorTest, NoDeviceRaises) {
  C10_XPU_NEEDS_NO_DEVICE();
  EXPECT_THROW(getDefaultXPUGenerator(), c10::Error);
  EXPECT_THROW(getDefaultXPUGenerator(0), c10::Error);
  EXPECT_THROW(createXPUGenerator(0), c10::Error);
  EXPECT_THROW(
      at::globalContext().defaultGenerator(c10::Device(c10::kXPU, 0)),
      c10::Error);
}

TEST(XPUGeneratorTest, SameNumbersOnEveryDevice) {
  C10_XPU_NEEDS_DEVICES(1);
  auto reference = createXPUGenerator(0);
  reference.set_current_seed(2024);
  implOf(reference)->set_philox_offset_per_thread(8);
  const auto expected = draw(implOf(reference), 9);
  for (const auto i : c10::irange(device_count())) {
    auto generator = createXPUGenerator(static_cast<DeviceIndex>(i));
    EXPECT_EQ(generator.device(), c10::Device(c10::kXPU, i));
    generator.set_current_seed(2024);
    implOf(generator)->set_philox_offset_per_thread(8);
    EXPECT_EQ(draw(implOf(generator), 9), expected);
  }
  // The numbers themselves, so that they stay the same from build to build.
  at::Philox4_32 engine(2024, 0, 2);
  EXPECT_EQ(expected[0], engine());
}

TEST(XPUGeneratorTest, CreateChecksTheDevice) {
  C10_XPU_NEEDS_DEVICES(1);
  auto generator = createXPUGenerator();
  EXPECT_EQ(generator.device().index(), c10::xpu::current_device());
  EXPECT_EQ(generator.current_seed(), c10::default_rng_seed_val);
  const auto beyond = static_cast<DeviceIndex>(device_count());
  for (DeviceIndex index : {beyond, DeviceIndex(-2), DeviceIndex(127)}) {
    EXPECT_THROW(createXPUGenerator(index), c10::Error);
    EXPECT_THROW(getDefaultXPUGenerator(index), c10::Error);
  }
}

TEST(XPUGeneratorTest, DefaultGeneratorIsOnePerDevice) {
  C10_XPU_NEEDS_DEVICES(1);
  std::set<const c10::GeneratorImpl*> impls;
  for (const auto i : c10::irange(device_count())) {
    const auto index = static_cast<DeviceIndex>(i);
    const Generator& generator = getDefaultXPUGenerator(index);
    EXPECT_EQ(generator.device(), c10::Device(c10::kXPU, index));
    EXPECT_EQ(generator, getDefaultXPUGenerator(index));
    EXPECT_EQ(
        generator,
        at::globalContext().defaultGenerator(c10::Device(c10::kXPU, index)));
    impls.insert(generator.unsafeGetGeneratorImpl());

    c10::xpu::set_device(index);
    EXPECT_EQ(generator, getDefaultXPUGenerator());
  }
  c10::xpu::set_device(0);
  EXPECT_EQ(impls.size(), device_count());
}

TEST(XPUGeneratorTest, ManualSeedSeedsEveryDevice) {
  C10_XPU_NEEDS_DEVICES(1);
  at::manual_seed(77);
  for (const auto i : c10::irange(device_count())) {
    const auto& generator = getDefaultXPUGenerator(static_cast<DeviceIndex>(i));
    EXPECT_EQ(generator.current_seed(), 77);
    EXPECT_EQ(implOf(generator)->philox_offset_per_thread(), 0);
  }
}

// torch.utils.data seeds everything in each of its worker processes.
TEST(XPUGeneratorTest, AForkedChildSeedsWithoutTheDriver) {
  C10_XPU_NEEDS_DEVICES(1);
  at::manual_seed(1);
  const auto ended = inChild({}, []() -> std::string {
    at::manual_seed(99);
    const auto last =
        static_cast<DeviceIndex>(c10::xpu::device_count_across_fork() - 1);
    const auto text = errorOf([] { device_count(); });
    // As torch.random.fork_rng does.
    auto generator = getDefaultXPUGenerator(last);
    const auto state = generator.get_state();
    generator.set_current_seed(7);
    generator.set_state(state);
    return getDefaultXPUGenerator().current_seed() != 99 ||
            getDefaultXPUGenerator(last).current_seed() != 99
        ? "not seeded"
        : !contains(text, "forked") ? "the device is not refused: " + text
                                    : "";
  });
  EXPECT_EQ(ended.code, 0) << ended.output;
  EXPECT_EQ(getDefaultXPUGenerator().current_seed(), 1) << "the parent's";
}

TEST(XPUGeneratorTest, DefaultGeneratorIsCreatedOnceByManyThreads) {
  C10_XPU_NEEDS_DEVICES(1);
  constexpr size_t kThreads = 8;
  std::vector<const Generator*> seen(kThreads);
  inThreads(kThreads, [&](size_t t) {
    const auto index = static_cast<DeviceIndex>(t % device_count());
    seen[t] = &getDefaultXPUGenerator(index);
  });
  for (const auto t : c10::irange(kThreads)) {
    EXPECT_EQ(seen[t], seen[t % device_count()]);
  }
}

TEST(XPUGeneratorTest, ThreadsUnderTheMutexGetDisjointRanges) {
  C10_XPU_NEEDS_DEVICES(1);
  constexpr size_t kThreads = 4;
  constexpr size_t kRequests = 500;
  auto generator = createXPUGenerator(0);
  std::vector<std::vector<uint64_t>> offsets(kThreads);
  inThreads(kThreads, [&](size_t t) {
    for (const auto i : c10::irange(kRequests)) {
      (void)i;
      std::lock_guard<std::mutex> lock(generator.mutex());
      offsets[t].push_back(implOf(generator)->philox_engine_inputs(3).second);
    }
  });
  std::set<uint64_t> all;
  for (const auto& some : offsets) {
    all.insert(some.begin(), some.end());
  }
  EXPECT_EQ(all.size(), kThreads * kRequests);
  EXPECT_EQ(*all.rbegin(), 4 * (kThreads * kRequests - 1));
}
