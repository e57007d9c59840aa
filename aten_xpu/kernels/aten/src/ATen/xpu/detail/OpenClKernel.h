#pragma once

#include <sycl/device.hpp>
#include <sycl/kernel.hpp>
#include <sycl/kernel_bundle.hpp>

#include <optional>
#include <string>

// The code of kernels on the CPU device, as its driver has made it: see Note
// [Kernels on disk].

namespace at::xpu::detail {

/// All that decides on the code: the SPIR-V, the device and its driver, what
/// the environment tells that, and what the processor can do. Nothing for a
/// device that is not OpenCL's for the CPU, or where nothing is kept.
std::optional<std::string> builtKey(
    const sycl::device& device,
    const std::string& code);

/// The kernel that keepBuilt() has kept; nothing if there is none, or if the
/// driver refuses it.
std::optional<sycl::kernel> loadBuilt(
    const sycl::device& device,
    const std::string& key,
    const std::string& name);

/// Keeps the code of a bundle of one kernel, if that can be done.
void keepBuilt(
    const sycl::kernel_bundle<sycl::bundle_state::executable>& bundle,
    const std::string& key,
    const std::string& name);

} // namespace at::xpu::detail
