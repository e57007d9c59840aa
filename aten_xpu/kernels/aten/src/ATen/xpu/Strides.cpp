#include <ATen/xpu/detail/Strides.h>

#include <c10/util/SmallVector.h>
#include <c10/util/irange.h>

namespace at::xpu::detail {

namespace {

constexpr size_t kMostDims = 5;

} // namespace

uint64_t factorOf(uint32_t size, uint32_t& shift) {
  shift = 0;
  while ((uint64_t(1) << shift) < size) {
    ++shift;
  }
  const auto factor =
      ((uint64_t(1) << 32) * ((uint64_t(1) << shift) - size)) / size + 1;
  return size | (factor & 0xFFFFFFFF) << 32;
}

Strides noStrides(int64_t dims) {
  static constexpr std::array<int64_t, 64> kZeros{};
  Strides strides;
  strides.fill(c10::IntArrayRef(kZeros.data(), dims));
  return strides;
}

void eachStrided(
    const Pointers& pointers,
    c10::IntArrayRef shape,
    const Strides& strides,
    c10::function_ref<
        void(const Pointers&, uint32_t, c10::ArrayRef<KernelArgument>)>
        launch) {
  const auto dims = shape.size();
  if (dims > kMostDims) {
    for (const auto i : c10::irange(shape.back())) {
      auto moved = pointers;
      auto rest = strides;
      for (const auto k : c10::irange(kOperands)) {
        moved[k] += moved[k] ? i * strides[k].back() : 0;
        rest[k] = strides[k].slice(0, dims - 1);
      }
      eachStrided(moved, shape.slice(0, dims - 1), rest, launch);
    }
    return;
  }
  uint32_t count = 1;
  std::array<uint64_t, 3 * kMostDims + 3> packed{};
  for (const auto d : c10::irange(dims)) {
    count *= uint32_t(shape[d]);
    uint32_t shift = 0;
    packed[3 * d] = factorOf(uint32_t(shape[d]), shift);
    packed[3 * d + 1] = shift | uint64_t(strides[0][d]) << 32;
    packed[3 * d + 2] = uint32_t(strides[1][d]) | uint64_t(strides[2][d]) << 32;
    packed[3 * kMostDims + d / 2] |= uint64_t(uint32_t(strides[3][d]))
        << (d % 2 * 32);
  }
  c10::SmallVector<KernelArgument, 3 * kMostDims + 4> arguments{uint32_t(dims)};
  arguments.append(packed.begin(), packed.end());
  launch(pointers, count, arguments);
}

} // namespace at::xpu::detail
