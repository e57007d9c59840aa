#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <ATen/xpu/detail/OneDnn.h>

#include <utility>

namespace at::xpu::detail {

namespace {

// Multiplications, from which on the library may copy the right matrices.
constexpr int64_t kWorthBlocks = 1 << 29;

/// The strides of rows and columns, which fit where a size is 1.
std::pair<int64_t, int64_t> stridesOf(const Matrices& m) {
  if (m.rows == 1) {
    const auto col = m.cols == 1 ? 1 : m.col_stride;
    return {col == 1 ? m.cols : 1, col};
  }
  return {
      m.row_stride,
      m.cols > 1              ? m.col_stride
          : m.row_stride == 1 ? m.rows
                              : 1};
}

/// Whether the library reads them as they are: aligned, one stride is 1, and no
/// elements share a place.
bool arePlain(const Matrices& m) {
  constexpr uintptr_t kAligned = 64; // bytes, that its kernels for GPUs want
  if (reinterpret_cast<uintptr_t>(m.data()) % kAligned != 0) {
    return false;
  }
  const auto [row, col] = stridesOf(m);
  const auto end = (m.rows - 1) * row + (m.cols - 1) * col + 1;
  return ((col == 1 && row >= m.cols) || (row == 1 && col >= m.rows)) &&
      (m.batch == 1 || m.batch_stride == 0 || m.batch_stride >= end);
}

/// Matrices in memory as the library takes them.
OneDnnData dataOf(int argument, const Matrices& m) {
  const auto [row, col] = stridesOf(m);
  OneDnnData data;
  data.argument = argument;
  data.type = oneDnnTypeOf(m.tensor.scalar_type());
  data.data = m.data();
  data.sizes = {m.rows, m.cols};
  data.strides = {row, col};
  if (m.batch > 1) {
    const bool is_shared = m.batch_stride == 0;
    data.sizes.insert(data.sizes.begin(), is_shared ? 1 : m.batch);
    data.strides.insert(
        data.strides.begin(), is_shared ? m.rows * m.cols : m.batch_stride);
  }
  return data;
}

/// They become a copy if they are not plain, by columns as they are.
OneDnnData readData(int argument, Matrices& matrices) {
  if (!arePlain(matrices)) {
    const bool by_columns = stridesOf(matrices).first == 1;
    matrices = by_columns ? matrices.transposed().copied().transposed()
                          : matrices.copied();
  }
  return dataOf(argument, matrices);
}

/// A factor as the library takes it. Returns false if it cannot be one.
bool read(float& factor, const Scalar& number, ScalarType type) {
  const auto wide = type == kDouble ? number.to<double>() : number.to<float>();
  factor = static_cast<float>(wide);
  return type != kDouble || factor == wide;
}

} // namespace

bool multiplyByOneDnn(const Product& product) {
  const auto device = product.out.tensor.device().index();
  const auto type = product.left.tensor.scalar_type();
  if (!oneDnnTypeOf(type) || product.left.cols == 0 || !hasOneDnn(device)) {
    return false;
  }
  OneDnnRules rules;
  rules.tf32 = type == kFloat && productsAllowTf32();
  if (!read(rules.alpha, product.alpha, type) ||
      !read(rules.beta, product.beta, type)) {
    return false;
  }
  // The transpose of a result by columns is the product of the transposes, the
  // other way round: the library computes by rows.
  const bool by_columns = stridesOf(product.out).second != 1;
  const auto turned = [&](const Matrices& m) {
    return by_columns ? m.transposed() : m;
  };
  auto out = turned(product.out);
  if (stridesOf(out).second != 1 || !arePlain(out)) {
    out = out.withoutGaps(
        at::empty({out.batch, out.rows, out.cols}, out.tensor.options()));
  }
  auto left = turned(by_columns ? product.right : product.left);
  auto right = turned(by_columns ? product.left : product.right);
  c10::SmallVector<OneDnnData, 4> data{
      readData(kOneDnnInput, left), readData(kOneDnnWeight, right)};
  data.back().any_format =
      out.batch * out.rows * out.cols * left.cols >= kWorthBlocks;
  const auto self = turned(product.self);
  auto bias = self;
  bias.rows = 1;
  const bool is_bias = rules.beta == 1 && rules.alpha == 1 &&
      self.row_stride == 0 && self.col_stride == 1 &&
      (self.batch == 1 || self.batch_stride == 0) &&
      self.tensor.scalar_type() == type && arePlain(bias);
  if (is_bias) {
    data.push_back(dataOf(kOneDnnBias, bias));
    rules.beta = 0;
  } else if (rules.beta != 0 && !self.tensor.is_same(out.tensor)) {
    out.view().copy_(self.view());
  }
  data.push_back(dataOf(kOneDnnOutput, out));
  const auto describe = [&](void* engine,
                            c10::ArrayRef<const void*> described,
                            const void* attributes,
                            void** made) {
    return oneDnn().describe_product(
        made,
        engine,
        described[0],
        described[1],
        is_bias ? described[2] : nullptr,
        described.back(),
        attributes);
  };
  if (!computeByOneDnn(product.op, device, data, rules, describe)) {
    return false;
  }
  if (!out.tensor.is_same(product.out.tensor)) {
    turned(product.out).view().copy_(out.view());
  }
  return true;
}

} // namespace at::xpu::detail
