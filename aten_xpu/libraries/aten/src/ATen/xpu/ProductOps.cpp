#include <ATen/ATen.h>
#include <ATen/ExpandUtils.h>
#include <ATen/NativeFunctions.h> // the meta classes
#include <ATen/ceil_div.h>
#include <ATen/xpu/detail/CublasLt.h>
#include <ATen/xpu/detail/Product.h>
#include <ATen/xpu/detail/StructuredCall.h>

// Operators that multiply matrices and vectors.

namespace at::xpu::detail {

namespace {

/// Whether tensors of a type on one device can be multiplied, which have so
/// many dimensions each.
template <typename... Others>
bool canMultiplyAll(
    int64_t left_dims,
    const Tensor& left,
    int64_t right_dims,
    const Tensor& right,
    const Others&... others) {
  return left.dim() == left_dims && right.dim() == right_dims &&
      kernelDevice(left) && alike(left, right) &&
      (alike(left, others) && ...) && canMultiply(left, right);
}

/// What is added to a result of two dimensions, or one for a column.
Matrices expanded(const Tensor& self, IntArrayRef sizes, const char* op) {
  if (sizes.size() == 2 && self.dim() == 1 && self.size(0) == sizes[1]) {
    return {self, 1, sizes[0], sizes[1], 0, 0, self.stride(0)};
  }
  return Matrices::of(*expand_size(self, sizes, op));
}

/// An operator for factors with so many dimensions.
template <class Op, int64_t left_dims, int64_t right_dims>
struct Multiply {
  template <class Meta>
  static bool run(
      WithOutput<Meta>& op,
      DeviceIndex /*device*/,
      const Tensor& left,
      const Tensor& right) {
    if (!canMultiplyAll(left_dims, left, right_dims, right)) {
      return false;
    }
    op.meta(left, right);
    static const std::string name = Op::name;
    multiply(
        {name,
         Matrices::of(op.maybe_get_output(0)),
         Matrices::of(left),
         Matrices::of(right)});
    return true;
  }

  /// With what is added. use_gelu: of _addmm_activation
  template <class Meta, typename... UseGelu>
  static bool run(
      WithOutput<Meta>& op,
      DeviceIndex /*device*/,
      const Tensor& self,
      const Tensor& left,
      const Tensor& right,
      const Scalar& beta,
      const Scalar& alpha,
      UseGelu... use_gelu) {
    if (!canMultiplyAll(left_dims, left, right_dims, right, self)) {
      return false;
    }
    op.meta(self, left, right, beta, alpha, use_gelu...);
    static const std::string name = Op::name;
    const auto& out = op.maybe_get_output(0);
    const auto* const in_errors = right_dims == 1 ? "addmv" : "addmm_out";
    multiply(
        {name,
         Matrices::of(out),
         Matrices::of(left),
         Matrices::of(right),
         left_dims == 3 // baddbmm, whose meta class copies self to the output
             ? Matrices::of(out)
             : expanded(self, out.sizes(), in_errors),
         beta,
         alpha,
         sizeof...(UseGelu) == 0 ? Activation::None
             : (use_gelu || ...) ? Activation::Gelu
                                 : Activation::Relu});
    return true;
  }
};
using Addmm = Multiply<at::_ops::addmm, 2, 2>; // with activations too

struct Dot {
  static Tensor make(const Tensor& self, const Tensor& other) {
    if (!canMultiplyAll(1, self, 1, other) || self.sizes() != other.sizes()) {
      return Tensor();
    }
    if (self._is_zerotensor() || other._is_zerotensor()) { // has no memory
      return at::_efficientzerotensor({}, self.options());
    }
    if (self.is_conj() && other.is_conj()) { // as PyTorch's
      const auto result = make(self.conj(), other.conj());
      return result.defined() ? result.conj() : result;
    }
    const c10::xpu::XPUGuard guard(self.device());
    static const std::string name = "aten::dot";
    auto result = at::empty({}, self.options());
    const Matrices out{result, 1, 1, 1, 0, 1, 1};
    multiply({name, out, Matrices::row(self), Matrices::of(other)});
    return result;
  }
};

struct Vdot {
  static Tensor make(const Tensor& self, const Tensor& other) {
    if (!self.is_complex()) {
      return Dot::make(self, other);
    }
    if (other.is_conj() && !self.is_conj()) {
      const auto result = Dot::make(self, other.conj());
      return result.defined() ? result.conj() : result;
    }
    return Dot::make(self.conj(), other);
  }
};

/// The sum of the products is that of two longer matrices.
struct Addbmm {
  static bool takes(
      const Tensor& self,
      const Tensor& left,
      const Tensor& right) {
    return canMultiplyAll(3, left, 3, right, self) &&
        left.size(0) == right.size(0) && left.size(2) == right.size(1);
  }
  static Tensor lefts(const Tensor& left) {
    return left.transpose(0, 1).flatten(1);
  }
  static Tensor make(
      const Tensor& self,
      const Tensor& left,
      const Tensor& right,
      const Scalar& beta,
      const Scalar& alpha) {
    return takes(self, left, right)
        ? at::addmm(self, lefts(left), right.flatten(0, 1), beta, alpha)
        : Tensor();
  }
  static Tensor& inPlace(
      Tensor& self,
      const Tensor& left,
      const Tensor& right,
      const Scalar& beta,
      const Scalar& alpha) {
    // Of other sizes the CPU gives self those of the result.
    const bool same = self.dim() == 2 && left.dim() == 3 && right.dim() == 3 &&
        self.size(0) == left.size(1) && self.size(1) == right.size(2);
    return same && takes(self, left, right)
        ? self.addmm_(lefts(left), right.flatten(0, 1), beta, alpha)
        : OnHost<at::_ops::addbmm_>::call(self, left, right, beta, alpha);
  }
};

#ifdef XPU_LATER_OPERATORS
/// Of int8, with results of int.
struct IntMm {
  static Tensor make(const Tensor& left, const Tensor& right) {
    if (left.dim() != 2 || right.dim() != 2 || left.scalar_type() != kChar ||
        !kernelDevice(left) || !alike(left, right) ||
        left.size(1) != right.size(0)) {
      return Tensor();
    }
    const c10::xpu::XPUGuard guard(left.device());
    static const std::string name = "aten::_int_mm";
    auto result =
        at::empty({left.size(0), right.size(1)}, left.options().dtype(kInt));
    const Product product{
        name, Matrices::of(result), Matrices::of(left), Matrices::of(right)};
    const bool made = result.numel() > 0 && multiplyByCublas(product);
    return made ? result : at::mm(left.to(kInt), right.to(kInt));
  }

  /// It does not resize.
  static Tensor& intoOut(const Tensor& left, const Tensor& right, Tensor& out) {
    const bool fits = left.dim() == 2 && right.dim() == 2 &&
        out.sizes() == IntArrayRef{left.size(0), right.size(1)};
    return fits
        ? Unstructured<at::_ops::_int_mm, IntMm>::out<at::_ops::_int_mm_out>(
              left, right, out)
        : OnHost<at::_ops::_int_mm_out>::call(left, right, out);
  }
};

/// Of float8, with scales, see Scales.
struct ScaledMm {
  static bool isWide(ScalarType type) {
    return type == kHalf || type == kBFloat16 || type == kFloat;
  }

  static bool takes(
      const Tensor& left,
      const Tensor& right,
      const Tensor& scale_left,
      const Tensor& scale_right) {
    const auto is_float8 = [](const Tensor& tensor) {
      return tensor.dim() == 2 &&
          (tensor.scalar_type() == kFloat8_e4m3fn ||
           tensor.scalar_type() == kFloat8_e5m2);
    };
    return is_float8(left) && is_float8(right) && kernelDevice(left) &&
        left.device() == right.device() && left.size(1) == right.size(0) &&
        scale_left.scalar_type() == kFloat && alike(scale_left, scale_right) &&
        scale_left.device() == left.device();
  }

  /// A factor for each element of rows of `inner` numbers each.
  static Tensor whole(
      const Tensor& scale,
      ScaleOf is,
      int64_t rows,
      int64_t inner) {
    const auto in_blocks = [](const Tensor& of, int64_t size, int64_t dim) {
      return of.repeat_interleave(kScaleBlock, dim).narrow(dim, 0, size);
    };
    return is == ScaleOf::Part
        ? in_blocks(scale, inner, 1)
        : in_blocks(in_blocks(scale.t(), inner, 1), rows, 0);
  }

  static Tensor compute(
      const Tensor& left,
      const Tensor& right,
      const Scales& scales,
      const Tensor& bias,
      ScalarType type) {
    const auto rows = left.size(0);
    const auto cols = right.size(1);
    const bool has_bias = bias.defined();
    if (isFloat8Type(type)) {
      const auto wide = compute(left, right, scales, bias, kFloat);
      return wide.defined() ? wide.to(type) : wide;
    }
    if (!isWide(type) ||
        (has_bias &&
         (bias.dim() != 1 || bias.size(0) != cols ||
          bias.device() != left.device() || !isWide(bias.scalar_type())))) {
      return Tensor();
    }
    const c10::xpu::XPUGuard guard(left.device());
    static const std::string name = "aten::_scaled_mm";
    // Beside a result of float it wants a bias of bfloat16.
    if (!has_bias || (bias.scalar_type() == type && type != kFloat)) {
      auto result = at::empty({rows, cols}, left.options().dtype(type));
      const Product product{
          name,
          Matrices::of(result),
          Matrices::of(left),
          Matrices::of(right),
          has_bias ? expanded(bias, result.sizes(), "_scaled_mm") : Matrices(),
          has_bias ? 1 : 0};
      if (result.numel() == 0 || multiplyByCublas(product, scales)) {
        return result;
      }
    }
    // bfloat16 has the numbers of float8, but not their products with scales.
    const bool in_blocks = scales.left_is >= ScaleOf::Part;
    auto lefts = left.to(in_blocks ? kFloat : kBFloat16);
    auto rights = right.to(lefts.scalar_type());
    if (in_blocks) {
      const auto inner = left.size(1);
      lefts.mul_(whole(scales.left, scales.left_is, rows, inner));
      rights.mul_(whole(scales.right, scales.right_is, cols, inner).t());
    }
    if (!canMultiply(lefts, rights)) {
      return Tensor();
    }
    auto sums = at::empty({rows, cols}, left.options().dtype(kFloat));
    multiply(
        {name, Matrices::of(sums), Matrices::of(lefts), Matrices::of(rights)});
    if (scales.left_is == ScaleOf::Matrix) {
      sums.mul_(scales.left.reshape({}) * scales.right.reshape({}));
    } else if (!in_blocks) {
      sums.mul_(scales.left).mul_(scales.right);
    }
    if (has_bias) {
      sums.add_(bias);
    }
    return sums.to(type);
  }

  static Tensor make(
      const Tensor& left,
      const Tensor& right,
      const Tensor& scale_left,
      const Tensor& scale_right,
      const std::optional<Tensor>& bias,
      const std::optional<Tensor>& scale_result,
      std::optional<ScalarType> out_dtype,
      bool use_fast_accum) {
    if (!takes(left, right, scale_left, scale_right) ||
        tensorOf(scale_result).defined()) {
      return Tensor();
    }
    const bool by_matrix = scale_left.numel() == 1 && scale_right.numel() == 1;
    if (!by_matrix &&
        (scale_left.sizes() != IntArrayRef{left.size(0), 1} ||
         scale_right.sizes() != IntArrayRef{1, right.size(1)} ||
         !scale_left.is_contiguous() || !scale_right.is_contiguous())) {
      return Tensor(); // PyTorch refuses these
    }
    const auto is = by_matrix ? ScaleOf::Matrix : ScaleOf::Row;
    return compute(
        left,
        right,
        {scale_left, scale_right, is, is, use_fast_accum},
        tensorOf(bias),
        out_dtype.value_or(left.scalar_type()));
  }

  /// Its type is that of the result.
  static Tensor& intoOut(
      const Tensor& left,
      const Tensor& right,
      const Tensor& scale_left,
      const Tensor& scale_right,
      const std::optional<Tensor>& bias,
      const std::optional<Tensor>& scale_result,
      std::optional<ScalarType> out_dtype,
      bool use_fast_accum,
      Tensor& out) {
    return Unstructured<at::_ops::_scaled_mm, ScaledMm>::out<
        at::_ops::_scaled_mm_out>(
        left,
        right,
        scale_left,
        scale_right,
        bias,
        scale_result,
        out_dtype.value_or(out.scalar_type()),
        use_fast_accum,
        out);
  }

  static constexpr int64_t kScaleBlock = 128;
};

/// The same, that says what has a scale.
struct ScaledMmV2 {
  // PyTorch's numbers
  static constexpr int64_t kOfMatrix = 0;
  static constexpr int64_t kOfRow = 1;
  static constexpr int64_t kOfPart = 4;
  static constexpr int64_t kOfBlock = 5;

  /// Whether scales of blocks are those of a matrix with such rows; they are
  /// put as the library reads them.
  static bool readsBlocks(
      Tensor& scale,
      int64_t recipe,
      int64_t rows,
      int64_t inner,
      ScaleOf& is) {
    constexpr int64_t kStep = 4;
    const auto parts = at::ceil_div(inner, ScaledMm::kScaleBlock);
    is = recipe == kOfPart ? ScaleOf::Part : ScaleOf::Block;
    const bool fits = recipe == kOfPart
        ? scale.sizes() == IntArrayRef{rows, parts}
        : scale.sizes() ==
            IntArrayRef{
                at::ceil_div(parts, kStep) * kStep,
                at::ceil_div(rows, ScaledMm::kScaleBlock)};
    scale = fits ? scale.t().contiguous().t() : scale;
    return fits;
  }

  static Tensor make(
      const Tensor& left,
      const Tensor& right,
      TensorList scale_left,
      IntArrayRef recipe_left,
      IntArrayRef swizzle_left,
      TensorList scale_right,
      IntArrayRef recipe_right,
      IntArrayRef swizzle_right,
      const std::optional<Tensor>& bias,
      std::optional<ScalarType> out_dtype,
      IntArrayRef contraction_dim,
      bool use_fast_accum) {
    const auto is_plain = [](IntArrayRef swizzle) {
      return swizzle.empty() || swizzle == IntArrayRef{0};
    };
    if (left.dim() != 2 || right.dim() != 2 || scale_left.size() != 1 ||
        scale_right.size() != 1 || recipe_left.size() != 1 ||
        recipe_right.size() != 1 || !is_plain(swizzle_left) ||
        !is_plain(swizzle_right) || !contraction_dim.empty()) {
      return Tensor();
    }
    const auto a = recipe_left[0];
    const auto b = recipe_right[0];
    Scales scales{scale_left[0], scale_right[0]};
    scales.fast_sums = use_fast_accum;
    const auto is_block = [](int64_t recipe) {
      return recipe == kOfPart || recipe == kOfBlock;
    };
    if (is_block(a) && is_block(b) && (a == kOfPart || b == kOfPart)) {
      const bool fits =
          left.scalar_type() == kFloat8_e4m3fn &&
          right.scalar_type() == kFloat8_e4m3fn &&
          ScaledMm::takes(left, right, scales.left, scales.right) &&
          readsBlocks(
              scales.left, a, left.size(0), left.size(1), scales.left_is) &&
          readsBlocks(
              scales.right, b, right.size(1), left.size(1), scales.right_is);
      return fits ? ScaledMm::compute(
                        left,
                        right,
                        scales,
                        tensorOf(bias),
                        out_dtype.value_or(kBFloat16))
                  : Tensor();
    }
    const bool fits = a == b &&
        (a == kOfMatrix ? scales.left.numel() == 1 && scales.right.numel() == 1
                        : a == kOfRow &&
                 scales.left.sizes() == IntArrayRef{left.size(0), 1} &&
                 scales.right.sizes() == IntArrayRef{1, right.size(1)});
    return fits ? ScaledMm::make(
                      left,
                      right,
                      scales.left,
                      scales.right,
                      bias,
                      {},
                      out_dtype,
                      use_fast_accum)
                : Tensor();
  }
};
#endif

void registerProducts(torch::Library& library) {
  addStructured<
      at::meta::structured_mm,
      Multiply<at::_ops::mm, 2, 2>,
      at::_ops::mm,
      at::_ops::mm_out>(library);
  addStructured<
      at::meta::structured_addmm,
      Addmm,
      at::_ops::addmm,
      at::_ops::addmm_,
      at::_ops::addmm_out>(library);
  addStructured<
      at::meta::structured__addmm_activation,
      Addmm,
      at::_ops::_addmm_activation,
      at::_ops::_addmm_activation_out>(library);
  addStructured<
      at::meta::structured_bmm,
      Multiply<at::_ops::bmm, 3, 3>,
      at::_ops::bmm,
      at::_ops::bmm_out>(library);
  addStructured<
      at::meta::structured_baddbmm,
      Multiply<at::_ops::baddbmm, 3, 3>,
      at::_ops::baddbmm,
      at::_ops::baddbmm_,
      at::_ops::baddbmm_out>(library);
  addStructured<
      at::meta::structured_addmv,
      Multiply<at::_ops::addmv, 2, 1>,
      at::_ops::addmv,
      at::_ops::addmv_,
      at::_ops::addmv_out>(library);
  addUnstructured<at::_ops::dot, Dot>(library);
  addUnstructured<at::_ops::vdot, Vdot>(library);
  addUnstructured<at::_ops::addbmm, Addbmm>(library);
  addUnstructured<at::_ops::addbmm, Addbmm, at::_ops::addbmm_out>(library);
  library.impl("addbmm_", &Addbmm::inPlace);
#ifdef XPU_LATER_OPERATORS
  addUnstructured<at::_ops::_int_mm, IntMm>(library);
  library.impl("_int_mm.out", &IntMm::intoOut);
  addUnstructured<at::_ops::_scaled_mm, ScaledMm>(library);
  library.impl("_scaled_mm.out", &ScaledMm::intoOut);
  addUnstructured<at::_ops::_scaled_mm_v2, ScaledMmV2>(library);
  addUnstructured<
      at::_ops::_scaled_mm_v2,
      ScaledMmV2,
      at::_ops::_scaled_mm_v2_out>(library);
#endif
}

[[maybe_unused]] const bool kProductsAdded = addKernels(&registerProducts);

} // namespace

} // namespace at::xpu::detail
