#include <ATen/xpu/detail/Product.h>

#include <ATen/ATen.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/ceil_div.h>
#include <ATen/xpu/detail/CublasLt.h>
#include <ATen/xpu/detail/KernelSources.h>
#include <ATen/xpu/detail/KernelTypes.h>
#include <ATen/xpu/detail/OneDnn.h>
#include <ATen/xpu/detail/Reduce.h>
#include <ATen/xpu/detail/Structured.h>

#include <algorithm>

namespace at::xpu::detail {

namespace {

std::string productSourceOf(int type) {
  return tileSource(type) +
#include <ATen/xpu/kernels/Product.sycl>
      ;
}

const KernelFamily kProducts("products", &productSourceOf, FLOATING | INTEGRAL);
const NamedKernel kProduct(kProducts, "product");

constexpr int64_t kLeastOfPart = 256; // of the inner size

const Kernel* findProduct(ScalarType type, DeviceIndex device) {
  const auto kernel_type = kernelTypeOfParts(type, device);
  if (!kernel_type || !(kProducts.types() & (1 << *kernel_type))) {
    return nullptr;
  }
  const auto* const kernel = kProduct.find(*kernel_type, device);
  return kernel && groupSize(*kernel) >= kTileItems ? kernel : nullptr;
}

/// The type that sums have.
ScalarType typeOfSums(ScalarType type) {
  return type == kHalf || type == kBFloat16              ? kFloat
      : type == kShort || type == kByte || type == kChar ? kInt
                                                         : type;
}

/// As kernels take it, which knows no rules of promotion.
Scalar factorOf(const Scalar& number, ScalarType type) {
  return isIntegralType(type, /*includeBool=*/false)
      ? Scalar(number.to<int64_t>())
      : Scalar(number.to<double>());
}

void byKernel(const Product& product) {
  const auto& [op, out, left, right, self, beta, alpha, activation] = product;
  const auto scalar_type = left.tensor.scalar_type();
  const bool wide = out.tensor.scalar_type() != scalar_type;
  const auto device = out.tensor.device().index();
  const auto kernel_type = kernelType(scalar_type, device);
  TORCH_INTERNAL_ASSERT(kernel_type);
  const auto type = *kernel_type;
  const auto inner = left.cols;
  const auto groups = out.batch * tilesOf(out.rows, out.cols);
  const auto wanted = itemsWanted(device) / kTileItems;
  const auto parts = wide
      ? 1
      : std::max<int64_t>(
            std::min(wanted / groups, at::ceil_div(inner, kLeastOfPart)), 1);
  const auto of_part = at::ceil_div(inner, parts);
  const bool reads = beta.to<double>() != 0;
  Tensor sums;
  if (parts > 1) {
    sums = at::empty(
        {parts, out.batch, out.rows, out.cols},
        out.tensor.options().dtype(typeOfSums(scalar_type)));
  }
  c10::SmallVector<KernelArgument, 32> arguments{
      out.data(),
      left.data(),
      right.data(),
      reads ? self.data() : nullptr,
      wide ? out.data() : pointerOf(sums)};
  const auto to = parts > 1 ? out.withoutGaps(sums) : out;
  for (const auto* matrices : {&to, &left, &right, &self}) {
    arguments.push_back(matrices->batch_stride);
    arguments.push_back(matrices->row_stride);
    arguments.push_back(matrices->col_stride);
  }
  for (const auto size : {out.rows, out.cols, inner}) {
    arguments.push_back(static_cast<uint32_t>(size));
  }
  arguments.push_back(out.batch * out.rows * out.cols); // of a part
  for (const auto size : {parts, of_part}) {
    arguments.push_back(static_cast<uint32_t>(size));
  }
  arguments.push_back(kernelNumber(alpha, type));
  // Of parts it is added when they are.
  arguments.push_back(kernelNumber(parts > 1 ? Scalar(0) : beta, type));
  kProduct.launch(
      op, type, device, groups * parts * kTileItems, arguments, kTileItems);
  if (parts > 1) {
    sums = sums.sum(0, /*keepdim=*/false, sums.scalar_type());
    if (!alpha.equal(1)) {
      sums.mul_(factorOf(alpha, scalar_type));
    }
    if (reads) {
      sums.add_(self.view(), factorOf(beta, scalar_type));
    }
    out.view().copy_(sums);
  }
}

/// One product of real numbers with twice the inner size: the left parts side
/// by side, for the real part of the result and below for the imaginary one,
/// times the right parts one above the other.
void multiplyComplex(const Product& product) {
  const auto left = product.left.view().resolve_conj();
  const auto right = product.right.view().resolve_conj();
  const auto re = at::real(left);
  const auto im = at::imag(left);
  const auto lefts =
      at::cat({at::cat({re, im.neg()}, 2), at::cat({im, re}, 2)}, 1);
  const auto rights = at::cat({at::real(right), at::imag(right)}, 1);
  const auto both = at::bmm(lefts, rights).chunk(2, 1);
  auto result = at::complex(both[0], both[1]);
  if (!product.alpha.equal(1)) {
    result.mul_(product.alpha);
  }
  if (!product.beta.equal(0)) {
    result.add_(product.self.view().mul(product.beta));
  }
  product.out.view().copy_(result);
}

void activate(const Product& product) {
  auto out = product.out.view();
  if (product.activation == Activation::Relu) {
    out.relu_();
  } else if (product.activation == Activation::Gelu) {
    out.copy_(at::gelu(out));
  }
}

} // namespace

std::string tileSource(int type) {
  return typedSource(type) +
#include <ATen/xpu/kernels/Tile.sycl>
      ;
}

int64_t tilesOf(int64_t rows, int64_t cols) {
  return at::ceil_div(rows, kTile) * at::ceil_div(cols, kTile);
}

bool productsAllowTf32() {
  return at::globalContext().allowTF32CuBLAS() &&
      !at::NoTF32Guard::should_disable_tf32();
}

Matrices Matrices::of(const Tensor& tensor) {
  const auto sizes = tensor.sizes();
  const auto strides = tensor.strides();
  if (sizes.size() == 1) {
    return {tensor, 1, sizes[0], 1, 0, strides[0], 1};
  }
  const auto row = sizes.size() - 2;
  Matrices result{
      tensor, 1, sizes[row], sizes[row + 1], 0, strides[row], strides[row + 1]};
  if (row > 0) {
    result.batch = sizes[0];
    result.batch_stride = strides[0];
  }
  return result;
}

Matrices Matrices::row(const Tensor& vector) {
  return {vector, 1, 1, vector.size(0), 0, vector.size(0), vector.stride(0)};
}

Matrices Matrices::transposed() const {
  return {tensor, batch, cols, rows, batch_stride, col_stride, row_stride};
}

Tensor Matrices::view() const {
  return tensor.as_strided(
      {batch, rows, cols}, {batch_stride, row_stride, col_stride});
}

Matrices Matrices::withoutGaps(const Tensor& other) const {
  return {other, batch, rows, cols, rows * cols, cols, 1};
}

Matrices Matrices::copied() const {
  const auto from = view();
  return withoutGaps(at::empty(from.sizes(), from.options()).copy_(from));
}

bool canMultiply(const Tensor& left, const Tensor& right) {
  const auto fits = [](const Tensor& tensor) {
    return std::all_of(
        tensor.sizes().begin(), tensor.sizes().end(), [](int64_t size) {
          return size <= kMostElements;
        });
  };
  return fits(left) && fits(right) &&
      findProduct(left.scalar_type(), left.device().index());
}

void multiply(const Product& product) {
  const auto& out = product.out.tensor;
  const auto& self = product.self.tensor;
  at::assert_no_internal_overlap(out);
  if (!product.beta.equal(0) && !self.is_same(out)) {
    at::assert_no_partial_overlap(out, self);
  }
  if (out.numel() == 0) {
    return;
  }
  if (product.alpha.equal(0)) { // BLAS does not read the factors then
    const auto& beta = product.beta;
    const auto options = out.options();
    product.out.view().copy_(
        beta.equal(0) ? at::zeros({}, options) : product.self.view().mul(beta));
  } else if (out.is_complex()) {
    multiplyComplex(product);
  } else if (multiplyByCublas(product)) {
    return; // with the activation
  } else if (!multiplyByOneDnn(product)) {
    byKernel(product);
  }
  activate(product);
}

} // namespace at::xpu::detail
