#pragma once

// PyTorch's headers include this file, which a build of PyTorch with XPU makes.

#define C10_XPU_BUILD_SHARED_LIBS

// What is in DeviceProp depends on it: is_integrated_gpu is from here on.
#ifndef SYCL_COMPILER_VERSION
#define SYCL_COMPILER_VERSION 20260000
#elif SYCL_COMPILER_VERSION < 20260000
#error "The XPU runtime was built for SYCL 2026: use a compiler of that release"
#endif
