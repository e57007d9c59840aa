#include <ATen/ATen.h>
#include <torch/library.h>

// Products with the dtype of the result, torch.mm(a, b,
// out_dtype=torch.float32), which PyTorch has for GPUs alone.

namespace at::xpu {

namespace {

Tensor widened(const Tensor& tensor, ScalarType out_dtype) {
  const auto type = tensor.scalar_type();
  TORCH_CHECK(
      out_dtype == type ||
          (out_dtype == kFloat && (type == kHalf || type == kBFloat16)),
      "out_dtype is ",
      out_dtype,
      ", and the inputs are ",
      type,
      ": it must be the same, or Float for inputs of Half and BFloat16");
  return tensor.to(out_dtype);
}

Tensor& put(Tensor& out, const Tensor& result) {
  TORCH_CHECK(
      out.scalar_type() == result.scalar_type(),
      "out is ",
      out.scalar_type(),
      ", and out_dtype is ",
      result.scalar_type());
  return out.resize_(result.sizes()).copy_(result);
}

template <Tensor (*product)(const Tensor&, const Tensor&)>
Tensor multiply(const Tensor& self, const Tensor& mat2, ScalarType out_dtype) {
  return product(widened(self, out_dtype), widened(mat2, out_dtype));
}

template <Tensor (*product)(const Tensor&, const Tensor&)>
Tensor& multiplyOut(
    const Tensor& self,
    const Tensor& mat2,
    ScalarType out_dtype,
    Tensor& out) {
  return put(out, multiply<product>(self, mat2, out_dtype));
}

using Add = Tensor (*)(
    const Tensor&,
    const Tensor&,
    const Tensor&,
    const Scalar&,
    const Scalar&);

template <Add product>
Tensor multiplyAdd(
    const Tensor& self,
    const Tensor& mat1,
    const Tensor& mat2,
    ScalarType out_dtype,
    const Scalar& beta,
    const Scalar& alpha) {
  return product(
      self.to(out_dtype),
      widened(mat1, out_dtype),
      widened(mat2, out_dtype),
      beta,
      alpha);
}

template <Add product>
Tensor& multiplyAddOut(
    const Tensor& self,
    const Tensor& mat1,
    const Tensor& mat2,
    ScalarType out_dtype,
    const Scalar& beta,
    const Scalar& alpha,
    Tensor& out) {
  return put(
      out, multiplyAdd<product>(self, mat1, mat2, out_dtype, beta, alpha));
}

} // namespace

TORCH_LIBRARY_IMPL(aten, XPU, m) {
  m.impl("mm.dtype", &multiply<&at::mm>);
  m.impl("mm.dtype_out", &multiplyOut<&at::mm>);
  m.impl("bmm.dtype", &multiply<&at::bmm>);
  m.impl("bmm.dtype_out", &multiplyOut<&at::bmm>);
  m.impl("addmm.dtype", &multiplyAdd<&at::addmm>);
  m.impl("addmm.dtype_out", &multiplyAddOut<&at::addmm>);
  m.impl("baddbmm.dtype", &multiplyAdd<&at::baddbmm>);
  m.impl("baddbmm.dtype_out", &multiplyAddOut<&at::baddbmm>);
}

} // namespace at::xpu
