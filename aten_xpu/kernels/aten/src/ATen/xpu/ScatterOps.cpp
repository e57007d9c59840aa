#include <ATen/ATen.h>
#include <ATen/Dispatch.h>
#include <ATen/NativeFunctions.h> // the meta classes
#include <ATen/OpMathType.h>
#include <ATen/xpu/detail/Index.h>
#include <ATen/xpu/detail/KernelOps.h>
#include <ATen/xpu/detail/StructuredCall.h>
#include <c10/xpu/XPUGuard.h>

#include <limits>
#include <type_traits>

// Operators with an index for each element, kernels/Index.sycl.

namespace at::xpu::detail {

namespace {

/// Of no elements, of which the host says it.
bool leadsNowhere(const Tensor& self, const Tensor& index) {
  return self.numel() == 0 && index.numel() > 0;
}

struct Gather {
  template <class Meta>
  static bool run(
      WithOutput<Meta>& op,
      DeviceIndex device,
      const Tensor& self,
      int64_t dim,
      const Tensor& index,
      bool sparse_grad) {
    static const IndexOp name("gather", IndexWords::Dimension, false);
    if (!areOn(device, self, index) || leadsNowhere(self, index) ||
        !hasIndexKernel(IndexKernel::Take, self.scalar_type(), device)) {
      return false;
    }
    op.meta(self, dim, index, sparse_grad);
    if (index.numel() > 0) {
      const auto from = withDim(self);
      const auto places = withDim(index);
      dim = maybe_wrap_dim(dim, from.dim());
      runIndex(
          name,
          IndexKernel::Take,
          withDim(op.maybe_get_output(0)),
          restrided(from, dim, places.sizes()),
          places,
          rangeOf(from, dim));
    }
    return true;
  }
};

/// By the names of both forms: scatter's and scatter_reduce's.
c10::optional<IndexKernel> reductionOf(c10::string_view name) {
  return name == "add" || name == "sum" || name == "mean"
      ? c10::make_optional(IndexKernel::Add)
      : name == "multiply" || name == "prod"
      ? c10::make_optional(IndexKernel::Multiply)
      : name == "amax" ? c10::make_optional(IndexKernel::Maximum)
      : name == "amin" ? c10::make_optional(IndexKernel::Minimum)
                       : c10::nullopt;
}

/// What a reduction begins with.
Scalar identityOf(IndexKernel kernel, ScalarType type) {
  if (kernel == IndexKernel::Add || kernel == IndexKernel::Multiply) {
    return int64_t(kernel == IndexKernel::Multiply);
  }
  const bool least = kernel == IndexKernel::Maximum;
  if (isFloatingType(type)) {
    const auto infinity = std::numeric_limits<double>::infinity();
    return least ? -infinity : infinity;
  }
  Scalar result;
  AT_DISPATCH_INTEGRAL_TYPES_AND(kBool, type, "scatter_reduce", [&] {
    using Limits = std::numeric_limits<scalar_t>;
    result = least ? Limits::lowest() : Limits::max();
  });
  return result;
}

void scatterTo(
    const IndexOp& op,
    IndexKernel kernel,
    const Tensor& result,
    int64_t dim,
    const Tensor& index,
    const Tensor& source) {
  const auto to = withDim(result);
  const auto places = withDim(index);
  const auto sizes = places.sizes();
  dim = maybe_wrap_dim(dim, to.dim());
  runIndex(
      op,
      kernel,
      restrided(to, dim, sizes),
      source.dim() == 0 ? source.expand(sizes)
                        : source.as_strided(sizes, source.strides()),
      places,
      rangeOf(to, dim));
}

/// The mean of what was added, by how much was.
void divideByCount(
    const IndexOp& op,
    const Tensor& result,
    int64_t dim,
    const Tensor& index,
    bool include_self) {
  const auto count = at::full(
      result.sizes(), int64_t(include_self), result.options().dtype(kInt));
  scatterTo(op, IndexKernel::Add, count, dim, index, numberOn(count, 1));
  result.div_(count.clamp_min_(1));
}

void scatterReduce(
    const IndexOp& op,
    IndexKernel kernel,
    const Tensor& result,
    int64_t dim,
    const Tensor& index,
    const Tensor& source,
    bool mean,
    bool include_self) {
  const auto type = result.scalar_type();
  const auto wide = at::toOpMathType(type);
  // Less to do than to sort the places, of which an expanded index has few.
  const int64_t enough = index.is_non_overlapping_and_dense() ? 8 : 1;
  if (kernel == IndexKernel::Add && wide != type &&
      enough * index.numel() >= result.numel()) {
    const auto sums = result.to(wide);
    const auto from = source.to(wide);
    scatterReduce(op, kernel, sums, dim, index, from, mean, include_self);
    result.copy_(sums);
    return;
  }
  if (!include_self) {
    const auto identity = identityOf(kernel, type);
    const auto number = numberOn(result, identity);
    scatterTo(op, IndexKernel::Put, result, dim, index, number);
  }
  scatterTo(op, kernel, result, dim, index, source);
  if (mean) {
    divideByCount(op, result, dim, index, include_self);
  }
}

struct Scatter {
  /// reduce: how, for some operators, and whether what there is counts
  template <class Meta, typename Source, typename... Reduce>
  static bool run(
      WithOutput<Meta>& op,
      DeviceIndex device,
      const Tensor& self,
      int64_t dim,
      const Tensor& index,
      const Source& source,
      const Reduce&... reduce) {
    static const IndexOp words("scatter", IndexWords::Dimension, false);
    constexpr bool puts = sizeof...(Reduce) == 0 &&
        !std::is_same_v<Meta, at::meta::structured_scatter_add>;
    c10::string_view name = puts ? "" : "add";
    bool include_self = true;
    (look(reduce, name, include_self), ...);
    const auto kernel = puts ? IndexKernel::Put : reductionOf(name);
    const auto type = self.scalar_type();
    const bool mean = name == "mean";
    const bool fills = puts && std::is_same_v<Source, Scalar>;
    if (!kernel || !areOn(device, self, index) || !isOn(device, source) ||
        leadsNowhere(self, index) || (mean && !isFloatingType(type)) ||
        (!fills && mayDiffer(*kernel, type)) ||
        !hasIndexKernel(*kernel, type, device) ||
        !hasIndexKernel(IndexKernel::Put, type, device)) {
      return false;
    }
    op.meta(self, dim, index, source, reduce...);
    const auto& result = op.maybe_get_output(0);
    copyUnlessSame(result, self);
    if (index.numel() == 0) {
      return true;
    }
    const auto from = tensorOf(source, self);
    scatterReduce(words, *kernel, result, dim, index, from, mean, include_self);
    return true;
  }

 private:
  static void look(c10::string_view given, c10::string_view& name, bool&) {
    name = given;
  }
  static void look(bool given, c10::string_view&, bool& include_self) {
    include_self = given;
  }
  static bool isOn(DeviceIndex device, const Tensor& source) {
    return areOn(device, source);
  }
  static bool isOn(DeviceIndex /*device*/, const Scalar& /*source*/) {
    return true;
  }
  static Tensor tensorOf(const Tensor& source, const Tensor& /*self*/) {
    return source;
  }
  static Tensor tensorOf(const Scalar& source, const Tensor& self) {
    return numberOn(self, source);
  }
};

struct IndexReduce {
  template <class Meta>
  static bool run(
      WithOutput<Meta>& op,
      DeviceIndex device,
      const Tensor& self,
      int64_t dim,
      const Tensor& index,
      const Tensor& source,
      c10::string_view reduce,
      bool include_self) {
    static const IndexOp words("index_reduce", IndexWords::Self, true);
    const auto kernel = reductionOf(reduce);
    const auto type = self.scalar_type();
    const bool mean = reduce == "mean";
    if (!kernel || !areOn(device, self, index, source) || type == kBool ||
        self.numel() == 0 || (mean && !isFloatingType(type)) ||
        mayDiffer(*kernel, type) || !hasIndexKernel(*kernel, type, device) ||
        !hasIndexKernel(IndexKernel::Put, type, device)) {
      return false;
    }
    dim = maybe_wrap_dim(dim, self.dim());
    const auto from = withDim(source);
    if (!sameSlices(withDim(self), from, dim)) {
      return false; // the host raises
    }
    op.meta(self, dim, index, source, reduce, include_self);
    const auto& result = op.maybe_get_output(0);
    copyUnlessSame(result, self);
    if (from.numel() == 0) {
      return true;
    }
    scatterReduce(
        words,
        *kernel,
        result,
        dim,
        alongDim(index, dim, from.dim()).expand(from.sizes()),
        from,
        mean,
        include_self);
    return true;
  }
};

void registerScatter(torch::Library& library) {
#define XPU_ADD_SCATTER(op, op_, op_out) \
  addStructured<                         \
      at::meta::structured_##op,         \
      Scatter,                           \
      at::_ops::op,                      \
      at::_ops::op_,                     \
      at::_ops::op_out>(library);
#define XPU_ADD_FORM(form) \
  XPU_ADD_SCATTER(scatter_##form, scatter__##form, scatter_##form##_out)
  addStructured<
      at::meta::structured_gather,
      Gather,
      at::_ops::gather,
      at::_ops::gather_out>(library);
  XPU_ADD_FORM(src)
  XPU_ADD_FORM(value)
  XPU_ADD_FORM(reduce)
  XPU_ADD_FORM(value_reduce)
  XPU_ADD_SCATTER(scatter_add, scatter_add_, scatter_add_out)
  XPU_ADD_SCATTER(
      scatter_reduce_two, scatter_reduce__two, scatter_reduce_two_out)
  addStructured<
      at::meta::structured_index_reduce,
      IndexReduce,
      at::_ops::index_reduce,
      at::_ops::index_reduce_,
      at::_ops::index_reduce_out>(library);
#undef XPU_ADD_FORM
#undef XPU_ADD_SCATTER
}

[[maybe_unused]] const bool kScatterAdded = addKernels(&registerScatter);

} // namespace

} // namespace at::xpu::detail
