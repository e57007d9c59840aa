#pragma once

#include <ATen/xpu/detail/KernelImage.h>
#include <c10/macros/Export.h>

#include <optional>
#include <string>
#include <vector>

// Note [Kernels on disk]
// ~~~~~~~~~~~~~~~~~~~~~~
// Images are kept in files, one for all kernels that are compiled together, in
//
//   TORCH_XPU_KERNEL_CACHE, or else $XDG_CACHE_HOME/torch_xpu/kernels, or else
//   ~/.cache/torch_xpu/kernels
//
// The name of a file is a hash of its key, in which a hash stands for the
// source, and the file has the key itself too, and a checksum: one that is
// damaged is as none. It is written under another name and renamed, so that
// processes that start at once, or one that is killed, leave whole files. Where
// nothing can be written, each process compiles. The oldest files are removed
// when all have more than 256 MB.
//
// A package has such files beside this library, in a folder `kernels`. They are
// looked for first.
//
// The CPU device's driver, unlike those of GPUs, does not keep what it makes of
// an image. That takes it a hundred times as long as to load its code, so code
// is kept likewise, in a folder `built` of that folder, a file for each kernel.

namespace at::xpu::detail {

/// Tells a text from others: 32 letters.
std::string digestOf(const std::string& text);

/// The folder, which need not exist; empty if TORCH_XPU_KERNEL_CACHE is 0.
std::string kernelCacheFolder();

C10_EXPORT std::optional<std::vector<KernelImage>> loadKernels(
    const std::string& key);

/// Those of a folder alone; nothing if its name is empty.
std::optional<std::vector<KernelImage>> loadKernels(
    const std::string& folder,
    const std::string& key);

/// Whether the folder has them now.
C10_EXPORT bool storeKernels(
    const std::string& folder,
    const std::string& key,
    const std::vector<KernelImage>& images);

/// Keeps the words of the compiler in the folder, under the name of what was
/// compiled. Returns where, or nothing if it cannot write.
std::optional<std::string> storeLog(
    const std::string& name,
    const std::string& text);

} // namespace at::xpu::detail
