#pragma once

#include <c10/macros/Export.h>

#if defined(C10_XPU_BUILD_MAIN_LIB)
#define C10_XPU_API C10_EXPORT
#else
#define C10_XPU_API C10_IMPORT
#endif

/// A device's index must fit c10::DeviceIndex.
#define C10_COMPILE_TIME_MAX_XPUS 64 // NOLINT(modernize-macro-to-enum)
