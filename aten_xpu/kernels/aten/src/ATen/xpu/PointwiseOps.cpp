#include <ATen/ATen.h>
#include <ATen/NativeFunctions.h> // the meta classes
#include <ATen/xpu/Fallback.h>
#include <ATen/xpu/detail/KernelOps.h>
#include <ATen/xpu/detail/Pointwise.h>
#include <ATen/xpu/detail/Structured.h>
#include <c10/util/irange.h>
#include <c10/xpu/XPUGuard.h>

#include <tuple>
#include <utility>

// The operators of kernels/Pointwise.def.

namespace at::xpu::detail {

namespace {

/// In place of the meta class of an operator that has none.
struct PlainUnary : TensorIteratorBase {
  void meta(const Tensor& self) {
    build_borrowing_unary_op(maybe_get_output(0), self);
  }
};

/// The factor among the arguments of a call, which is the last of them.
template <bool has_alpha, typename... Args>
Scalar alphaOf(const Args&... args) {
  if constexpr (has_alpha) {
    return std::get<sizeof...(Args) - 1>(std::tie(args...));
  } else {
    return 1;
  }
}

/// Runs the kernel if there is one for the types.
template <class Meta, Pointwise kernel, bool has_alpha, typename... Args>
bool run(WithOutput<Meta>& op, DeviceIndex device, const Args&... args) {
  const c10::xpu::XPUGuard guard(device);
  op.meta(args...);
  return runPointwise(op, kernel, alphaOf<has_alpha>(args...));
}

template <
    class Op,
    class Meta,
    Pointwise kernel,
    bool has_alpha = false,
    class Schema = typename Op::schema>
struct Call;

/// A new result.
template <class Op, class Meta, Pointwise kernel, bool has_alpha, class... Args>
struct Call<Op, Meta, kernel, has_alpha, Tensor(Args...)> {
  static Tensor call(Args... args) {
    if (const auto device = kernelDevice(args...)) {
      WithOutput<Meta> op(WithOutput<Meta>::Kind::New, Tensor());
      if (run<Meta, kernel, has_alpha>(op, *device, args...)) {
        return op.maybe_get_output(0);
      }
    }
    return OnHost<Op>::call(args...);
  }
};

/// In place.
template <class Op, class Meta, Pointwise kernel, bool has_alpha, class... Args>
struct Call<Op, Meta, kernel, has_alpha, Tensor&(Tensor&, Args...)> {
  static Tensor& call(Tensor& self, Args... args) {
    if (const auto device = kernelDevice(self, args...)) {
      WithOutput<Meta> op(WithOutput<Meta>::Kind::InPlace, self);
      if (run<Meta, kernel, has_alpha>(op, *device, self, args...)) {
        return self;
      }
    }
    return OnHost<Op>::call(self, args...);
  }
};

/// To an output that is given, the last argument.
template <
    class Op,
    class Meta,
    Pointwise kernel,
    bool has_alpha,
    class First,
    class... Args>
struct Call<Op, Meta, kernel, has_alpha, Tensor&(const First&, Args...)> {
  static Tensor& call(const First& first, Args... args) {
    return callWith(
        std::forward_as_tuple(first, args...),
        std::make_index_sequence<sizeof...(Args)>());
  }

 private:
  template <class Tuple, size_t... inputs>
  static Tensor& callWith(
      const Tuple& args,
      std::index_sequence<inputs...> /*all but the last*/) {
    Tensor& out = std::get<sizeof...(inputs)>(args);
    const auto device = kernelDevice(out, std::get<inputs>(args)...);
    if (device && out.is_xpu()) {
      WithOutput<Meta> op(WithOutput<Meta>::Kind::Out, out);
      if (run<Meta, kernel, has_alpha>(
              op, *device, std::get<inputs>(args)...)) {
        return out;
      }
    }
    return OnHost<Op>::call(std::get<inputs>(args)..., out);
  }
};

template <class Op, class Meta, Pointwise kernel, bool has_alpha = false>
void addPointwise(torch::Library& library) {
  const std::string overload = Op::overload_name;
  const auto name =
      Op::name + (overload.empty() ? std::string() : "." + overload);
  library.impl(name.c_str(), &Call<Op, Meta, kernel, has_alpha>::call);
}

/// The lines of the table, for the tests: the form, the name and the types.
std::vector<std::string> pointwiseTable() {
  std::vector<std::string> lines;
  const auto add = [&](const char* form_and_name, uint32_t types) {
    std::string line = form_and_name;
    for (const auto i : c10::irange(kKernelTypes.size())) {
      if (types & (1 << i)) {
        line += std::string(" ") + kKernelTypes[i].name;
      }
    }
    lines.push_back(std::move(line));
  };
#define XPU_UNARY(name, types, ...) add("UNARY " #name, types);
#define XPU_PLAIN(name, types, ...) add("PLAIN " #name, types);
#define XPU_BINARY(name, types, ...) add("BINARY " #name, types);
#define XPU_ALPHA(name, types, ...) add("ALPHA " #name, types);
#define XPU_EXTREMUM(name, types, ...) add("EXTREMUM " #name, types);
#define XPU_COMPARE(name, types, ...) add("COMPARE " #name, types);
#include <ATen/xpu/kernels/Pointwise.def>
  return lines;
}

} // namespace

TORCH_LIBRARY_FRAGMENT(torch_xpu, m) {
  m.def("_pointwise_table() -> str[]", &pointwiseTable);
}

void registerPointwise(torch::Library& library) {
#define XPU_ADD(op, ...) addPointwise<at::_ops::op, __VA_ARGS__>(library);
#define XPU_WITH(op, in_place, out, ...) \
  XPU_ADD(op, __VA_ARGS__)               \
  XPU_ADD(in_place, __VA_ARGS__)         \
  XPU_ADD(out, __VA_ARGS__)
#define XPU_UNARY(name, ...) \
  XPU_WITH(                  \
      name, name##_, name##_out, at::meta::structured_##name, Pointwise::name)
#define XPU_PLAIN(name, ...) \
  XPU_WITH(name, name##_, name##_out, PlainUnary, Pointwise::name)
#define XPU_TENSORS(name, ...)              \
  XPU_WITH(                                 \
      name##_Tensor,                        \
      name##__Tensor,                       \
      name##_out,                           \
      at::meta::structured_##name##_Tensor, \
      Pointwise::name,                      \
      __VA_ARGS__)
#define XPU_BINARY(name, ...) XPU_TENSORS(name, false)
#define XPU_ALPHA(name, ...) XPU_TENSORS(name, true)
#define XPU_EXTREMUM(name, ...)                               \
  XPU_ADD(name, at::meta::structured_##name, Pointwise::name) \
  XPU_ADD(name##_out, at::meta::structured_##name, Pointwise::name)
#define XPU_COMPARE(name, ...)              \
  XPU_WITH(                                 \
      name##_Tensor,                        \
      name##__Tensor,                       \
      name##_Tensor_out,                    \
      at::meta::structured_##name##_Tensor, \
      Pointwise::name)                      \
  XPU_WITH(                                 \
      name##_Scalar,                        \
      name##__Scalar,                       \
      name##_Scalar_out,                    \
      at::meta::structured_##name##_Scalar, \
      Pointwise::name)
#include <ATen/xpu/kernels/Pointwise.def>
}

} // namespace at::xpu::detail
