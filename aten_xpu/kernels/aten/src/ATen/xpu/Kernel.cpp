#include <ATen/xpu/detail/Kernel.h>

#include <ATen/xpu/HostCall.h>
#include <ATen/xpu/detail/CudaLaunch.h>
#include <ATen/xpu/detail/KernelCache.h>
#include <ATen/xpu/detail/KernelImage.h>
#include <ATen/xpu/detail/OpenClKernel.h>
#include <ATen/xpu/detail/RecordWork.h>
#include <c10/util/Exception.h>
#include <c10/util/irange.h>
#include <c10/xpu/XPUException.h>
#include <c10/xpu/XPUFunctions.h>
#include <c10/xpu/impl/XPUNative.h>

#include <sycl/kernel_bundle.hpp>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace at::xpu::detail {

/// One of both.
struct Kernel {
  std::optional<sycl::kernel> queued; // by SYCL
  void* function = nullptr; // CUfunction
  uint32_t most_in_group = 0;
};

const Kernel kNoKernel{};

namespace {

namespace ex = sycl::ext::oneapi::experimental;

constexpr uint32_t kUsualGroup = 256;

struct Images {
  std::once_flag once;
  std::map<std::string, std::string> codes; // by kernel
};

void warnOf(const std::string& unit, const std::string& words) {
  const auto log = storeLog(unit, words);
  TORCH_WARN(
      "The kernels of '",
      unit,
      "' cannot be compiled, and their operators run on the host. ",
      log ? "What the compiler says is in " + *log : words);
}

std::vector<KernelImage> compileOrLoad(
    const sycl::device& device,
    const std::string& name,
    const std::string& source) {
  const auto key = imagesKey(imageForm(device), source);
  if (auto kept = loadKernels(key)) {
    return std::move(*kept);
  }
  const auto begin = std::chrono::steady_clock::now();
  auto images = compileKernels(device, source);
  const std::chrono::duration<double> took =
      std::chrono::steady_clock::now() - begin;
  static std::atomic<bool> told{false};
  if (took.count() > 2 && !told.exchange(true)) {
    std::cerr << "torch.xpu: compiled kernels of " << name << " in "
              << took.count() << " s; "
              << (kernelCacheFolder().empty()
                      ? "they are not kept, since TORCH_XPU_KERNEL_CACHE is 0"
                      : "the next process finds them in " + kernelCacheFolder())
              << '\n';
  }
  if (!kernelCacheFolder().empty()) {
    storeKernels(kernelCacheFolder(), key, images);
  }
  return images;
}

/// The images of a unit, compiled once in a process. Empty if that failed.
const std::map<std::string, std::string>& imagesOfUnit(
    const sycl::device& device,
    const KernelUnit& unit) {
  static std::mutex mutex;
  static auto& all = // never destroyed
      *new std::map<std::pair<std::string, ImageForm>, std::unique_ptr<Images>>;
  Images* images = nullptr;
  {
    std::lock_guard<std::mutex> lock(mutex);
    auto& place = all[{unit.name, imageForm(device)}];
    if (!place) {
      place = std::make_unique<Images>();
    }
    images = place.get();
  }
  std::call_once(images->once, [&] {
    try {
      for (auto& image :
           compileOrLoad(device, unit.name, unit.source(unit.which))) {
        images->codes.emplace(std::move(image.kernel), std::move(image.code));
      }
    } catch (const std::exception& error) {
      warnOf(unit.name, error.what());
    }
  });
  return images->codes;
}

std::unique_ptr<const Kernel> loadPtx(
    DeviceIndex device,
    const std::string& name,
    const std::string& code) {
  auto kernel = std::make_unique<Kernel>();
  enterCuda(device);
  void* module = nullptr;
  using c10::xpu::impl::callCuda;
  const auto form = imageForm(c10::xpu::get_raw_device(device));
  const auto ptx = ptxToLoad(form, code);
  callCuda("cuModuleLoadData", &module, static_cast<const void*>(ptx.c_str()));
  callCuda("cuModuleGetFunction", &kernel->function, module, name.c_str());
  int most = 0;
  callCuda(
      "cuFuncGetAttribute",
      &most,
      /*MAX_THREADS_PER_BLOCK=*/0,
      kernel->function);
  kernel->most_in_group = most;
  return kernel;
}

sycl::kernel buildSpirv(
    const sycl::device& device,
    const std::string& name,
    const std::string& code) {
  const auto key = builtKey(device, code);
  if (key) {
    if (auto kept = loadBuilt(device, *key, name)) {
      return *kept;
    }
  }
  const auto* const bytes = reinterpret_cast<const std::byte*>(code.data());
  auto source = C10_XPU_CHECK(
      ex::create_kernel_bundle_from_source(
          c10::xpu::get_device_context(),
          ex::source_language::spirv,
          std::vector<std::byte>(bytes, bytes + code.size())));
  auto built = C10_XPU_CHECK(ex::build(source, {device}));
  if (key) {
    keepBuilt(built, *key, name);
  }
  return C10_XPU_CHECK(built.ext_oneapi_get_kernel(name));
}

std::unique_ptr<const Kernel> loadSpirv(
    const sycl::device& device,
    const std::string& name,
    const std::string& code) {
  auto kernel = std::make_unique<Kernel>();
  kernel->queued = buildSpirv(device, name, code);
  const auto most = C10_XPU_CHECK(
      kernel->queued
          ->get_info<sycl::info::kernel_device_specific::work_group_size>(
              device));
  kernel->most_in_group = most;
  return kernel;
}

std::unique_ptr<const Kernel> loadImage(
    DeviceIndex index,
    const std::string& name,
    const std::string& code) {
  const auto& device = c10::xpu::get_raw_device(index);
  return takesPtx(device) ? loadPtx(index, name, code)
                          : loadSpirv(device, name, code);
}

const Kernel* load(
    DeviceIndex index,
    const KernelUnit& unit,
    const char* name) {
  const auto& device = c10::xpu::get_raw_device(index);
  const auto& images = imagesOfUnit(device, unit);
  if (images.empty()) {
    return &kNoKernel;
  }
  const auto full_name = std::string("__sycl_kernel_xpu_") + name;
  try {
    const auto found = images.find(full_name);
    TORCH_CHECK(
        found != images.end(),
        "The image of kernel ",
        full_name,
        " is missing");
    // For as long as the process lives.
    return loadImage(index, full_name, found->second).release();
  } catch (const std::exception& error) {
    warnOf(unit.name + "-" + name, error.what());
    return &kNoKernel;
  }
}

void submit(
    sycl::handler& handler,
    const sycl::kernel& kernel,
    uint32_t groups,
    uint32_t group_size,
    c10::ArrayRef<KernelArgument> arguments) {
  for (const auto i : c10::irange(arguments.size())) {
    const auto& argument = arguments[i];
    const int at = static_cast<int>(i);
    if (argument.size == KernelArgument::kPointer) {
      handler.set_arg(at, reinterpret_cast<void*>(argument.bits));
    } else if (argument.size == 4) {
      handler.set_arg(at, static_cast<uint32_t>(argument.bits));
    } else {
      handler.set_arg(at, argument.bits);
    }
  }
  handler.parallel_for(
      sycl::nd_range<1>(size_t(groups) * group_size, group_size), kernel);
}

constexpr size_t kMostArguments = 32;

void launchCuda(
    const Kernel& kernel,
    void* stream,
    uint32_t groups,
    uint32_t group_size,
    c10::ArrayRef<KernelArgument> arguments) {
  using Launch = int (*)(
      void*,
      unsigned,
      unsigned,
      unsigned,
      unsigned,
      unsigned,
      unsigned,
      unsigned,
      void*,
      const void**,
      void**);
  static const auto launch =
      reinterpret_cast<Launch>(c10::xpu::impl::cudaFunction("cuLaunchKernel"));
  std::array<const void*, kMostArguments> places{};
  for (const auto i : c10::irange(arguments.size())) {
    places[i] = &arguments[i].bits;
  }
  const int result = launch(
      kernel.function,
      groups,
      1,
      1,
      group_size,
      1,
      1,
      /*shared bytes=*/0,
      stream,
      places.data(),
      nullptr);
  TORCH_CHECK(result == 0, "cuLaunchKernel returned ", result);
}

} // namespace

bool usesKernels(DeviceIndex device) {
  static const auto uses = [] {
    const auto all = zeroOrOne("TORCH_XPU_KERNELS");
    std::array<bool, kMostDevices> result{};
    const auto count = std::min<size_t>(c10::xpu::device_count(), kMostDevices);
    for (const auto i : c10::irange(count)) {
      const auto type =
          c10::xpu::get_device_properties(DeviceIndex(i)).device_type;
      result[i] = all.value_or(type == sycl::info::device_type::gpu);
    }
    return result;
  }();
  return size_t(device) < uses.size() && uses[device];
}

const Kernel* loadKernel(
    KernelSlot& slot,
    DeviceIndex device,
    const KernelUnit& unit,
    const char* name) {
  auto& place = slot.kernels[device];
  const Kernel* kernel = place.load(std::memory_order_acquire);
  if (C10_UNLIKELY(!kernel)) {
    static std::mutex mutex; // a kernel is loaded once
    std::lock_guard<std::mutex> lock(mutex);
    kernel = place.load(std::memory_order_acquire);
    if (!kernel) {
      kernel = load(device, unit, name);
      place.store(kernel, std::memory_order_release);
    }
  }
  return kernel == &kNoKernel ? nullptr : kernel;
}

const Kernel& requireKernel(const Kernel* kernel, const std::string& op) {
  TORCH_CHECK(kernel, "A kernel of ", op, " cannot be had, but another could");
  return *kernel;
}

const Kernel& compileKernel(
    KernelSlot& slot,
    DeviceIndex index,
    const std::string& name,
    const std::string& source) {
  auto& place = slot.kernels[index];
  if (const auto* const kernel = place.load(std::memory_order_acquire)) {
    return *kernel;
  }
  static std::mutex mutex; // it is compiled once
  const std::lock_guard<std::mutex> lock(mutex);
  if (const auto* const kernel = place.load(std::memory_order_acquire)) {
    return *kernel;
  }
  const auto& device = c10::xpu::get_raw_device(index);
  try {
    const auto images = compileOrLoad(device, name, source);
    TORCH_CHECK(images.size() == 1, "It has ", images.size(), " kernels");
    place.store(
        loadImage(index, images[0].kernel, images[0].code).release(),
        std::memory_order_release);
  } catch (const std::exception& error) {
    const auto* const words = error.what();
    const auto log = storeLog(name, words);
    TORCH_CHECK(
        false,
        "The function '",
        name,
        "' cannot be compiled. ",
        log ? "What the compiler says is in " + *log : std::string(words),
        takesPtx(device)
            ? ". For an NVIDIA device the compiler needs files of other "
              "packages: see 'Kernels' in docs/tensors.md of xpu-stack"
            : "");
  }
  return *place.load(std::memory_order_acquire);
}

bool loadKernels(const KernelUnit& unit, DeviceIndex device) {
  return !imagesOfUnit(c10::xpu::get_raw_device(device), unit).empty();
}

uint32_t groupSize(const Kernel& kernel) {
  return std::min(kUsualGroup, kernel.most_in_group);
}

void launchKernel(
    const Kernel& kernel,
    c10::xpu::XPUStream stream,
    const std::string& op,
    uint64_t items,
    c10::ArrayRef<KernelArgument> arguments,
    uint32_t group_size) {
  TORCH_INTERNAL_ASSERT(arguments.size() <= kMostArguments); // on any device
  const auto in_group = group_size ? std::min(group_size, kernel.most_in_group)
                                   : groupSize(kernel);
  const auto by = group_size ? group_size : in_group;
  const auto groups = uint32_t((items + by - 1) / by);
  if (kernel.queued) {
    detail::launch(stream, op.c_str(), /*nbytes=*/0, [&](sycl::queue& queue) {
      return C10_XPU_CHECK(queue.submit([&](sycl::handler& handler) {
        submit(handler, *kernel.queued, groups, in_group, arguments);
      }));
    });
    return;
  }
  launchOnCuda(stream, op, [&](void* cuda_stream) {
    launchCuda(kernel, cuda_stream, groups, in_group, arguments);
  });
}

} // namespace at::xpu::detail
