#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <ATen/xpu/detail/CudaLaunch.h>
#include <ATen/xpu/detail/Cudnn.h>
#include <ATen/xpu/detail/Kernel.h>
#include <c10/util/Exception.h>
#include <c10/util/SmallVector.h>
#include <c10/util/hash.h>
#include <c10/util/irange.h>
#include <c10/xpu/impl/XPUStreamPool.h>

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

namespace at::xpu::detail {

namespace {

// Numbers of cudnn.h.
enum CudnnType {
  kCudnnFloat = 0,
  kCudnnDouble = 1,
  kCudnnHalf = 2,
  kCudnnBrain16 = 9
};
enum CudnnMath {
  kCudnnDefaultMath = 0, // float by TF32 too
  kCudnnTensorMath = 1,
  kCudnnConvertingMath = 2, // float by half too
  kCudnnFmaMath = 3
};
enum CudnnFormat { kCudnnNchw = 0, kCudnnNhwc = 1 };
constexpr int kCudnnCrossCorrelation = 1;

/// Of cuDNN 8 and of cuDNN 9, which has several.
bool isUnsupported(int status) {
  return status == 9 || (status >= 3000 && status < 4000);
}

constexpr size_t kCudnnWorkspace = size_t(1) << 30;
constexpr int64_t kCudnnMostNumber = std::numeric_limits<int32_t>::max();

/// Where input, weight and output are in what each way takes: two, and the
/// result.
constexpr std::array<std::array<size_t, 3>, 3> kCudnnOrders{
    {{0, 1, 2}, {1, 2, 0}, {0, 2, 1}}};

// PyTorch 1.13 has one switch for all operators of cuDNN.
template <typename Op>
bool allowsTf32(bool (Context::*allows)(std::optional<Op>) const) {
  return (at::globalContext().*allows)(Op::CONV);
}
[[maybe_unused]] bool allowsTf32(bool (Context::*allows)() const) {
  return (at::globalContext().*allows)();
}

std::optional<CudnnType> cudnnTypeOf(ScalarType type) {
  switch (type) {
    case kFloat:
      return kCudnnFloat;
    case kDouble:
      return kCudnnDouble;
    case kHalf:
      return kCudnnHalf;
    case kBFloat16:
      return kCudnnBrain16;
    default:
      return std::nullopt;
  }
}

CudnnMath cudnnMathOf(CudnnType type) {
  return type == kCudnnHalf || type == kCudnnBrain16 ? kCudnnTensorMath
      : type == kCudnnFloat && !allowsTf32(&Context::allowTF32CuDNN)
      ? kCudnnFmaMath
      : kCudnnDefaultMath;
}

using CudnnNumbers = c10::SmallVector<int, 5>;

/// Of two or three axes: a convolution along one gets another axis before it.
CudnnNumbers cudnnNumbers(IntArrayRef list, size_t axis, int of_new_axis) {
  CudnnNumbers numbers;
  for (const auto number : list) {
    numbers.push_back(static_cast<int>(number));
  }
  if (numbers.size() == axis + 1) {
    numbers.insert(numbers.begin() + axis, of_new_axis);
  }
  return numbers;
}

CudnnNumbers packedStrides(const CudnnNumbers& sizes, bool channels_last) {
  CudnnNumbers strides(sizes.size());
  int next = 1;
  const auto take = [&](size_t d) {
    strides[d] = next;
    next *= sizes[d];
  };
  if (channels_last) {
    take(1);
  }
  for (auto d = sizes.size() - 1; d > 1; --d) {
    take(d);
  }
  if (!channels_last) {
    take(1);
  }
  take(0);
  return strides;
}

/// What the library is asked. Tensors are packed.
struct CudnnRequest {
  CudnnWay way;
  CudnnType type;
  CudnnMath math;
  bool channels_last;
  bool deterministic;
  int groups;
  std::array<CudnnNumbers, 3> sizes; // of input, weight and output
  CudnnNumbers padding, stride, dilation;

  /// Nothing if it cannot be asked.
  static std::optional<CudnnRequest> of(const CudnnConvolution& from) {
    const auto type = cudnnTypeOf(from.input.scalar_type());
    const auto is_large = [](int64_t n) { return n > kCudnnMostNumber; };
    for (const auto* tensor : {&from.input, &from.weight, &from.output}) {
      if (tensor->numel() == 0 || is_large(tensor->numel())) {
        return std::nullopt;
      }
    }
    for (const auto list : {from.padding, from.stride, from.dilation}) {
      if (std::any_of(list.begin(), list.end(), is_large)) {
        return std::nullopt;
      }
    }
    // A transposed convolution may want more places than these.
    for (const auto i : c10::irange(from.stride.size())) {
      const auto d = static_cast<int64_t>(i) + 2;
      const auto reach = from.dilation[i] * (from.weight.size(d) - 1) + 1;
      const auto places = from.input.size(d) + 2 * from.padding[i] - reach;
      if (places < 0 || places / from.stride[i] + 1 != from.output.size(d)) {
        return std::nullopt;
      }
    }
    if (!type) {
      return std::nullopt;
    }
    const auto& context = at::globalContext();
    return CudnnRequest{
        from.way,
        *type,
        cudnnMathOf(*type),
        from.format != MemoryFormat::Contiguous &&
            *type != kCudnnDouble, // which it does not take so
        context.deterministicAlgorithms() || context.deterministicCuDNN(),
        static_cast<int>(from.groups),
        {cudnnNumbers(from.input.sizes(), 2, 1),
         cudnnNumbers(from.weight.sizes(), 2, 1),
         cudnnNumbers(from.output.sizes(), 2, 1)},
        cudnnNumbers(from.padding, 0, 0),
        cudnnNumbers(from.stride, 0, 1),
        cudnnNumbers(from.dilation, 0, 1)};
  }

  std::vector<int> key(DeviceIndex device) const {
    std::vector<int> key{
        device,
        static_cast<int>(way),
        type,
        math,
        channels_last,
        deterministic,
        groups,
        static_cast<int>(stride.size())};
    for (const auto& numbers : sizes) {
      key.insert(key.end(), numbers.begin(), numbers.end());
    }
    for (const auto* numbers : {&padding, &stride, &dilation}) {
      key.insert(key.end(), numbers->begin(), numbers->end());
    }
    return key;
  }
};

using CudnnObject = std::unique_ptr<void, int (*)(void*)>;

/// What the library answers. Descriptors do not change once they are made:
/// several threads may read them.
class CudnnPlan {
 public:
  struct Choice {
    CudnnAlgorithm algorithm;
    CudnnObject convolution;
    bool works; // as far as is known
  };

  CudnnPlan(const CudnnRequest& request, void* handle)
      : order_(kCudnnOrders.at(static_cast<size_t>(request.way))),
        way_(static_cast<size_t>(request.way)),
        is_double_(request.type == kCudnnDouble) {
    const auto& library = cudnn();
    for (const auto i : c10::irange(request.sizes.size())) {
      tensors_.push_back(i == 1 ? makeFilter(request) : makeTensor(request, i));
    }
    const auto asked = makeConvolution(request, request.math);
    std::array<CudnnAlgorithm, 16> found{};
    int count = 0;
    note(library.choose.at(way_)(
        handle,
        tensor(0),
        tensor(1),
        asked.get(),
        tensor(2),
        static_cast<int>(found.size()),
        &count,
        found.data()));
    for (int i = 0; status_ == 0 && i < count; ++i) {
      const auto& algorithm = found.at(i);
      const bool is_exact =
          request.math != kCudnnFmaMath || algorithm.math == kCudnnFmaMath;
      if (algorithm.status == 0 && is_exact &&
          algorithm.math != kCudnnConvertingMath &&
          algorithm.workspace <= kCudnnWorkspace &&
          (algorithm.is_deterministic || !request.deterministic)) {
        choices.push_back(
            {algorithm, makeConvolution(request, algorithm.math), true});
      }
    }
  }

  /// Gives the library's status.
  int launch(
      const Choice& choice,
      const std::array<void*, 3>& data,
      void* workspace,
      DeviceIndex device,
      bool is_captured,
      void* cuda_stream) const {
    constexpr static std::array<float, 2> kScales{1, 0};
    constexpr static std::array<double, 2> kWideScales{1, 0};
    const auto scale = [&](size_t i) {
      return is_double_ ? static_cast<const void*>(&kWideScales.at(i))
                        : &kScales.at(i);
    };
    const auto& library = cudnn();
    CudnnHandle handle(device, /*may_make=*/!is_captured);
    const int status = handle.use(cuda_stream);
    if (status != 0) {
      return status;
    }
    return library.convolve.at(way_)(
        handle.get(),
        scale(0),
        tensor(0),
        data[order_[0]],
        tensor(1),
        data[order_[1]],
        choice.convolution.get(),
        choice.algorithm.algorithm,
        workspace,
        choice.algorithm.workspace,
        scale(1),
        tensor(2),
        data[order_[2]]);
  }

  /// The library's status of making the plan; unless it is 0, there are no
  /// choices.
  int status() const {
    return status_;
  }

  std::vector<Choice> choices; // the fastest first

 private:
  void* tensor(size_t i) const {
    return tensors_[order_[i]].get();
  }

  void note(int status) {
    status_ = status_ == 0 ? status : status_;
  }

  CudnnObject make(int (*create)(void**), int (*destroy)(void*)) {
    void* made = nullptr;
    note(create(&made));
    return {made, destroy};
  }

  CudnnObject makeTensor(const CudnnRequest& request, size_t i) {
    const auto& library = cudnn();
    const auto& sizes = request.sizes.at(i);
    const auto strides = packedStrides(sizes, request.channels_last);
    auto desc = make(library.create_tensor, library.destroy_tensor);
    note(library.set_tensor(
        desc.get(),
        request.type,
        static_cast<int>(sizes.size()),
        sizes.data(),
        strides.data()));
    return desc;
  }

  CudnnObject makeFilter(const CudnnRequest& request) {
    const auto& library = cudnn();
    const auto& sizes = request.sizes.at(1);
    auto desc = make(library.create_filter, library.destroy_filter);
    note(library.set_filter(
        desc.get(),
        request.type,
        request.channels_last ? kCudnnNhwc : kCudnnNchw,
        static_cast<int>(sizes.size()),
        sizes.data()));
    return desc;
  }

  CudnnObject makeConvolution(const CudnnRequest& request, int math) {
    const auto& library = cudnn();
    auto desc = make(library.create_convolution, library.destroy_convolution);
    note(library.set_convolution(
        desc.get(),
        static_cast<int>(request.stride.size()),
        request.padding.data(),
        request.stride.data(),
        request.dilation.data(),
        kCudnnCrossCorrelation,
        request.type == kCudnnDouble ? kCudnnDouble : kCudnnFloat));
    note(library.set_groups(desc.get(), request.groups));
    note(library.set_math(desc.get(), math));
    return desc;
  }

  std::array<size_t, 3> order_;
  size_t way_;
  bool is_double_;
  std::vector<CudnnObject> tensors_; // input, weight and output
  int status_ = 0;
};

/// That it takes no such convolution needs no words.
void warnOfCudnn(int status) {
  if (status != 0 && !isUnsupported(status)) {
    TORCH_WARN_ONCE(
        "cuDNN could not compute a convolution and said ",
        cudnn().words_of(status),
        ". Kernels compute it instead, and others like it.");
  }
}

/// Plans are kept for each thread, which notes in them what works.
std::shared_ptr<CudnnPlan> cudnnPlanOf(
    const CudnnRequest& request,
    DeviceIndex device) {
  constexpr size_t kMostPlans = 1024;
  static thread_local std::unordered_map<
      std::vector<int>,
      std::shared_ptr<CudnnPlan>,
      c10::hash<std::vector<int>>>
      plans;
  auto key = request.key(device);
  if (const auto known = plans.find(key); known != plans.end()) {
    return known->second;
  }
  const CudnnHandle handle(device, /*may_make=*/true);
  enterCuda(device);
  auto plan = std::make_shared<CudnnPlan>(request, handle.get());
  warnOfCudnn(plan->status());
  if (plans.size() >= kMostPlans) {
    plans.clear();
  }
  plans.emplace(std::move(key), plan);
  return plan;
}

} // namespace

bool convolveByCudnn(const CudnnConvolution& convolution) {
  const auto device = convolution.input.device().index();
  if (!at::globalContext().userEnabledCuDNN() || !hasCudnn(device)) {
    return false;
  }
  const auto request = CudnnRequest::of(convolution);
  if (!request) {
    return false;
  }
  const auto plan = cudnnPlanOf(*request, device);
  if (std::none_of(
          plan->choices.begin(), plan->choices.end(), [](const auto& choice) {
            return choice.works;
          })) {
    return false;
  }
  const auto format =
      request->channels_last ? convolution.format : MemoryFormat::Contiguous;
  const auto result_at =
      kCudnnOrders.at(static_cast<size_t>(convolution.way))[2];
  std::array<Tensor, 3> tensors{
      convolution.input, convolution.weight, convolution.output};
  const auto result = tensors.at(result_at);
  std::array<void*, 3> data{};
  for (const auto i : c10::irange(tensors.size())) {
    auto& tensor = tensors.at(i);
    if (!tensor.is_contiguous(format)) {
      tensor = i == result_at
          ? at::empty(tensor.sizes(), tensor.options().memory_format(format))
          : tensor.contiguous(format);
    }
    data.at(i) = tensor.data_ptr();
  }
  const auto stream = c10::xpu::getCurrentXPUStream(device);
  const bool records = c10::xpu::impl::isRecording(stream);
  auto too_much = std::numeric_limits<size_t>::max(); // of memory
  for (auto& choice : plan->choices) {
    const auto size = choice.algorithm.workspace;
    if (!choice.works || size >= too_much) {
      continue;
    }
    Tensor workspace;
    if (size > 0) {
      try {
        workspace = at::empty(
            {static_cast<int64_t>(size)}, result.options().dtype(kByte));
      } catch (const c10::OutOfMemoryError&) {
        too_much = size;
        continue;
      }
    }
    void* const space = size > 0 ? workspace.data_ptr() : nullptr;
    int status = 0;
    // Where the stream records, it is launched later: then a failure raises.
    int* const answer = records ? nullptr : &status;
    const auto* const chosen = &choice;
    launchOnCuda(stream, convolution.op, [=](void* cuda_stream) {
      const int launched =
          plan->launch(*chosen, data, space, device, !answer, cuda_stream);
      if (answer) {
        *answer = launched;
      } else {
        TORCH_CHECK(
            launched == 0,
            "A convolution of cuDNN cannot be a part of a graph: it said ",
            cudnn().words_of(launched));
      }
    });
    if (status == 0) {
      if (!tensors.at(result_at).is_same(result)) {
        result.copy_(tensors.at(result_at));
      }
      return true;
    }
    choice.works = false;
    warnOfCudnn(status);
  }
  return false;
}

} // namespace at::xpu::detail
