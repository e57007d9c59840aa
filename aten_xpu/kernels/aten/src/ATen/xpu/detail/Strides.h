#pragma once

#include <ATen/xpu/detail/Kernel.h>
#include <c10/util/FunctionRef.h>

#include <array>
#include <cstdint>

// What kernels for any strides are given; see Note [Strides] in
// kernels/Common.sycl.

namespace at::xpu::detail {

constexpr size_t kOperands = 4; // the result and up to three arguments
using Pointers = std::array<char*, kOperands>;
using Strides = std::array<c10::IntArrayRef, kOperands>; // in bytes

/// What divides by a size of 32 bits, with the size below it: the quotient of n
/// is (n * factor / 2^32 + n) / 2^shift.
uint64_t factorOf(uint32_t size, uint32_t& shift);

/// Of operands that do not move. For as many dimensions as PyTorch has.
Strides noStrides(int64_t dims);

/// Calls `launch` for a shape, or if it has more dimensions than a kernel
/// takes, for each of its parts: with the operands there, how many elements
/// there are, and the arguments for XPU_STRIDES.
void eachStrided(
    const Pointers& pointers,
    c10::IntArrayRef shape,
    const Strides& strides,
    c10::function_ref<
        void(const Pointers&, uint32_t, c10::ArrayRef<KernelArgument>)> launch);

} // namespace at::xpu::detail
