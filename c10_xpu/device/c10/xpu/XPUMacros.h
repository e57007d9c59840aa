#pragma once

#include <c10/macros/Export.h>

/// Marks what libc10_xpu exports.
#if defined(C10_XPU_BUILD_MAIN_LIB)
#define C10_XPU_API C10_EXPORT
#else
#define C10_XPU_API C10_IMPORT
#endif

/// The most devices a process can address: the index must fit c10::DeviceIndex.
// NOLINTNEXTLINE(modernize-macro-to-enum): a macro as C10_COMPILE_TIME_MAX_GPUS
#define C10_COMPILE_TIME_MAX_XPUS 64
