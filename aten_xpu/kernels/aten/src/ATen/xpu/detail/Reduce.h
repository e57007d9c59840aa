#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/xpu/detail/KernelTypes.h>
#include <c10/core/Scalar.h>
#include <c10/util/SmallVector.h>

#include <cstdint>
#include <string>

// The loop of kernels/Reduce.sycl, for reductions that have a line in
// kernels/Reduce.def, and for others that use the loop.

namespace at::xpu::detail {

/// The kernels of the table.
enum class Reduction : int {
#define XPU_REDUCTION(name, ...) name,
#define XPU_REDUCTION_PAIR XPU_REDUCTION
#include <ATen/xpu/kernels/Reduce.def>
};

/// One dimension or two of a tensor, with strides in elements.
struct ReduceDims {
  int64_t inner = 1;
  int64_t stride = 0;
  int64_t outer = 1;
  int64_t outer_stride = 0;
};

/// The two kernels of a reduction.
struct ReduceKernels {
  ReduceKernels(const KernelFamily& family, const std::string& name)
      : elements(family, name + "_elements"),
        states(family, name + "_states") {}

  NamedKernel elements; // makes states of elements
  NamedKernel states; // combines these states
};

/// A reduction by the loop, see Note [Reductions].
struct ReduceCall {
  const std::string& op; // for the profiler
  const ReduceKernels& kernels;
  KernelType type{};
  DeviceIndex device = 0;
  void* first = nullptr; // where results are written without gaps, if at all
  void* second = nullptr;
  c10::SmallVector<KernelArgument, 8> inputs; // of the kernel that begins
  int64_t state_bytes = 0; // no less than a state has
  KernelArgument n; // see kernels/Reduce.def
  KernelArgument p;
  ReduceDims kept;
  ReduceDims reduced;
  c10::SmallVector<KernelArgument, 4> both{}; // of both kernels, before n and p
};

constexpr int64_t kItemsOfUnit = 1024;

/// How many work-items keep the device busy.
int64_t itemsWanted(DeviceIndex device);

/// How many work-items a sub-group has, at most.
int64_t lanesOf(DeviceIndex device);

/// Launches it on the current stream of the device. There is a result at least.
void launchReduce(const ReduceCall& call);

/// Null for an undefined tensor.
void* pointerOf(const Tensor& tensor);

/// Where a result of the type is written without gaps: the tensor itself if it
/// can be. What is another one is copied to it by the caller.
Tensor writable(const Tensor& result, ScalarType type);

/// The number as `S` of kernels/Reduce.sycl.
KernelArgument sumNumber(const Scalar& number, KernelType type);

/// Runs a reduction of the table over some dimensions of a tensor, whose type
/// is the kernel's. `first` and `second` have the size of what is left, with
/// sizes of 1 or without; one of them may be undefined. Returns false, and
/// changes nothing, if no kernel fits.
bool runReduction(
    Reduction reduction,
    const Tensor& self,
    const std::bitset<64>& dims,
    const Tensor& first,
    const Tensor& second = Tensor(),
    const Scalar& p = 0);

} // namespace at::xpu::detail
