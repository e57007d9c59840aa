#include <ATen/xpu/detail/Foreach.h>

#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/xpu/PinnedMemoryAllocator.h>
#ifdef XPU_LATER_OPERATORS
#include <ATen/xpu/detail/KeepForGraph.h>
#endif
#include <ATen/xpu/detail/KernelSources.h>
#include <c10/util/irange.h>
#include <c10/xpu/XPUFunctions.h>
#include <c10/xpu/XPUGuard.h>
#include <c10/xpu/XPUStream.h>
#include <c10/xpu/impl/XPULaunch.h>
#include <c10/xpu/impl/XPUStreamPool.h>

#include <algorithm>
#include <array>

namespace at::xpu::detail {

namespace {

// As in the source.
constexpr uint32_t kItemsOfChunk = 256;
constexpr size_t kWordsOfEntry = 8;
constexpr size_t kMostLists = 6;

struct ForeachRow {
  std::string name;
  std::string source;
};

const char* foreachSource() {
  return
#include <ATen/xpu/kernels/Foreach.sycl>
      ;
}

ForeachRow foreachRowOf(const char* name, Pointwise kernel) {
  const std::string full = name;
  const auto output = full.rfind("to_", 0) == 0 ? full.substr(3) : "T";
  return {
      "many_" + full,
      pointwiseFunction(kernel) + "XPU_MANY(" + full + ", " + output + ")\n"};
}

const auto& foreachRows() {
  static const auto& all = *new std::vector<ForeachRow>{
  // never destroyed
#define XPU_MANY(name) foreachRowOf(#name, Pointwise::name),
#define XPU_UNARY XPU_MANY
#define XPU_BINARY XPU_MANY
#define XPU_TERNARY XPU_MANY
#include <ATen/xpu/kernels/Foreach.def>
      {"many_zero", ""},
      {"many_norm", ""},
      {"many_norms", ""},
      {"many_adam", ""},
      {"many_sgd", ""},
      {"many_adagrad", ""},
      {"many_unscale", ""},
      {"update_scale", ""},
  };
  return all;
}

constexpr size_t kForeachKernels = size_t(Foreach::update_scale) + 1;

std::string foreachSourceOf(int type) {
  auto source = typedSource(type) + pointwiseSource() + foreachSource();
  for (const auto& row : foreachRows()) {
    source += row.source;
  }
  return source;
}

const KernelFamily kForeachFamily("foreach", &foreachSourceOf, FLOATING);

/// How many elements a chunk has: enough chunks to keep the device busy.
uint32_t chunkFor(DeviceIndex device, int64_t elements) {
  constexpr int64_t kChunksOfUnit = 32;
  constexpr int64_t kLeast = 2048; // vectors of the smallest type
  constexpr int64_t kMost = 65536;
  const auto wanted =
      kChunksOfUnit * c10::xpu::get_device_properties(device).max_compute_units;
  const auto chunk = (elements / wanted + kLeast - 1) / kLeast * kLeast;
  // Work-items are counted in 32 bits.
  const auto least = (elements >> 22) / kLeast * kLeast;
  return uint32_t(std::max({std::min(chunk, kMost), kLeast, least}));
}

/// A replay reads a table again, so a graph has to keep it.
bool mayUpload(DeviceIndex device) {
  const auto stream = c10::xpu::getCurrentXPUStream(device);
#ifdef XPU_LATER_OPERATORS
  return !c10::xpu::impl::isRecording(stream) || canKeepForGraph(stream);
#else
  return !c10::xpu::impl::isRecording(stream);
#endif
}

bool sameStrides(const Tensor& tensor, const Tensor& other) {
  if (tensor.sizes() != other.sizes()) {
    return false;
  }
  for (const auto d : c10::irange(tensor.dim())) {
    if (tensor.size(d) != 1 && tensor.stride(d) != other.stride(d)) {
      return false;
    }
  }
  return true;
}

} // namespace

const Kernel* findForeach(Foreach kernel, KernelType type, DeviceIndex device) {
  static std::
      array<std::array<KernelSlot, kKernelTypes.size()>, kForeachKernels>
          slots;
  return findKernel(
      slots[size_t(kernel)][type], device, kForeachFamily[type], [&] {
        return foreachRows()[size_t(kernel)].name;
      });
}

TensorTable::TensorTable(
    DeviceIndex device,
    ArrayRef<TensorList> lists,
    ArrayRef<KernelArgument> numbers)
    : device_(device) {
  const auto tensors = lists[0];
  int64_t elements = 0;
  for (const auto& tensor : tensors) {
    elements += tensor.numel();
  }
  chunk_ = chunkFor(device, elements);
  const auto bytes = int64_t(tensors.size() * kWordsOfEntry * sizeof(uint64_t));
  const Tensor pinned = at::detail::empty_generic(
      {bytes},
      getPinnedMemoryAllocator(),
      c10::DispatchKeySet(c10::DispatchKey::CPU),
      kByte,
      c10::nullopt);
  auto* word = static_cast<uint64_t*>(pinned.data_ptr());
  for (const auto i : c10::irange(tensors.size())) {
    const auto count = tensors[i].numel();
    if (count == 0) {
      continue;
    }
    bool aligned = true;
    word[kWordsOfEntry - 1] =
        numbers.empty() ? 0 : numbers[numbers.size() == 1 ? 0 : i].bits;
    for (const auto k : c10::irange(kMostLists - (numbers.empty() ? 0 : 1))) {
      const bool given = k < lists.size() && !lists[k].empty();
      const auto at = given ? reinterpret_cast<uint64_t>(lists[k][i].data_ptr())
                            : uint64_t(0);
      aligned &= at % 16 == 0 || k + 1 == kMostLists;
      word[2 + k] = at;
    }
    word[0] = chunks_ | uint64_t(aligned) << 32;
    word[1] = count;
    chunks_ += uint32_t((count + chunk_ - 1) / chunk_);
    word += kWordsOfEntry;
    ++tensors_;
  }
  if (tensors_ == 0) {
    return;
  }
  const auto upload = [&] {
    words_ = at::empty(
        {bytes}, TensorOptions(Device(DeviceType::XPU, device)).dtype(kByte));
    words_.copy_(pinned, /*non_blocking=*/true);
  };
#ifdef XPU_LATER_OPERATORS
  // The pinned memory is gone when the graph is replayed. So the table is
  // uploaded now, on a stream that does not record, and the graph keeps it.
  const auto stream = c10::xpu::getCurrentXPUStream(device);
  if (c10::xpu::impl::isRecording(stream)) {
    auto other = stream;
    while (c10::xpu::impl::isRecording(other)) {
      other = c10::xpu::getStreamFromPool(/*isHighPriority=*/false, device);
    }
    const c10::xpu::XPUStreamGuard guard(other);
    upload();
    c10::xpu::impl::waitFor(other);
    keepForGraph(words_, stream);
    return;
  }
#endif
  upload();
}

void TensorTable::launch(
    const std::string& op,
    const Kernel* kernel,
    c10::ArrayRef<KernelArgument> more) const {
  launchGroups(chunks_, op, kernel, more);
}

void TensorTable::launchEach(
    const std::string& op,
    const Kernel* kernel,
    c10::ArrayRef<KernelArgument> more) const {
  launchGroups(tensors_, op, kernel, more);
}

void TensorTable::launchGroups(
    uint32_t groups,
    const std::string& op,
    const Kernel* kernel,
    c10::ArrayRef<KernelArgument> more) const {
  if (groups == 0) {
    return;
  }
  c10::SmallVector<KernelArgument, 20> arguments{
      words_.data_ptr(), tensors_, chunk_};
  arguments.append(more.begin(), more.end());
  launchKernel(
      requireKernel(kernel, op),
      c10::xpu::getCurrentXPUStream(device_),
      op,
      uint64_t(groups) * kItemsOfChunk,
      arguments);
}

std::optional<KernelType> foreachType(
    ArrayRef<TensorList> lists,
    std::optional<ScalarType> other) {
  const auto& first = lists[0][0];
  const auto device = kernelDevice(first);
  if (!device || !mayUpload(*device)) {
    return std::nullopt;
  }
  for (const auto k : c10::irange(lists.size())) {
    const auto type =
        k + 1 == lists.size() && other ? *other : first.scalar_type();
    if (lists[k].size() != lists[0].size()) {
      return std::nullopt;
    }
    for (const auto i : c10::irange(lists[0].size())) {
      const auto& tensor = lists[k][i];
      const auto& beside = lists[0][i];
      if (k > 0 && tensor.is_same(beside)) {
        continue;
      }
      if (tensor.layout() != kStrided || tensor.scalar_type() != type ||
          tensor.device() != first.device() ||
          !tensor.is_non_overlapping_and_dense() ||
          (k > 0 &&
           (!sameStrides(tensor, beside) ||
            at::get_overlap_status(tensor, beside) ==
                MemOverlapStatus::Partial))) {
        return std::nullopt;
      }
    }
  }
  const auto type = kernelType(first.scalar_type(), *device);
  return type && (FLOATING & (1 << *type)) ? type : std::nullopt;
}

} // namespace at::xpu::detail
