// Stand-in for kineto's header, which a build without kineto still includes:
// the kinds of activity that PyTorch's profiler names. Without kineto nothing
// records an activity, so no value of these ever leaves the profiler.
#pragma once

namespace libkineto {

enum class ActivityType {
  CPU_OP,
  USER_ANNOTATION,
  GPU_USER_ANNOTATION,
  GPU_MEMCPY,
  GPU_MEMSET,
  CONCURRENT_KERNEL,
  EXTERNAL_CORRELATION,
  CUDA_RUNTIME,
  CUDA_PROFILER_RANGE,
  GLOW_RUNTIME,
  CPU_INSTANT_EVENT,
  PYTHON_FUNCTION,
  OVERHEAD,
};

} // namespace libkineto
