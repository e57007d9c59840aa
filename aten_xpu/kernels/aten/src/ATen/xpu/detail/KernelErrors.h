#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/Scalar.h>
#include <c10/util/Optional.h>

#include <cstdint>
#include <string>

namespace at::xpu::detail {

// Note [Errors of kernels]
// ~~~~~~~~~~~~~~~~~~~~~~~~
// A kernel that finds an index which is out of range writes nothing there and
// reads nothing, and writes down the index, the size and a code, and so does
// one that divides an integer by 0: `report` of kernels/Common.sycl, in memory
// of the host that each device has for it. The first one counts until it is
// raised: where the device, one of its streams or an event is synchronized, or
// where the host reads a result.

/// How the CPU says it.
enum class IndexWords {
  Dimension, // index 5 is out of bounds for dimension 0 with size 5
  Self, // index out of range in self
  Ones, // Number of elements of source < number of ones in mask
  Division, // ZeroDivisionError
  Target, // Target 5 is out of bounds.
  Elements, // out of range: tried to access index 5 on a tensor of 5 elements.
  Given, // the message
};

/// What is raised for an operator: an IndexError, or else a RuntimeError.
struct IndexError {
  std::string op;
  IndexWords words;
  bool is_index_error;
  std::string message = {};
};

/// The code of an error, for a static variable. A kernel gets it with the
/// number of the dimension added.
uint32_t errorCode(IndexError error);

/// Raises the message where the device is waited for, unless the one element is
/// not 0; MaskOps.cpp.
void assertOn(const Tensor& self, const std::string& message);

/// The same, unless all elements are from `least` to `most`; not for NaN.
void assertBetween(
    const Tensor& self,
    const Scalar& least,
    const c10::optional<Scalar>& most,
    const std::string& message);

/// The memory for a kernel on the device.
uint64_t* kernelErrors(DeviceIndex device);

} // namespace at::xpu::detail
