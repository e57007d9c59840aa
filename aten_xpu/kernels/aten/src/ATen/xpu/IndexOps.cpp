#include <ATen/ATen.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/NativeFunctions.h> // the meta classes
#include <ATen/OpMathType.h>
#include <ATen/native/Resize.h>
#include <ATen/xpu/detail/Index.h>
#include <ATen/xpu/detail/KernelOps.h>
#include <ATen/xpu/detail/StructuredCall.h>
#include <c10/util/irange.h>

#include <vector>

// Operators with an index of one dimension, of elements, or of several
// dimensions; kernels/Index.sycl.

namespace at::xpu::detail {

namespace {

using Indices = c10::List<c10::optional<Tensor>>;

// An index along one dimension.

/// index_copy and index_add.
template <IndexKernel kernel>
struct IntoDim {
  template <class Meta, typename... Alpha>
  static bool run(
      WithOutput<Meta>& op,
      DeviceIndex device,
      const Tensor& self,
      int64_t dim,
      const Tensor& index,
      const Tensor& source,
      const Alpha&... alpha) {
    static const IndexOp name = kernel == IndexKernel::Add
        ? IndexOp("index_add", IndexWords::Self, true)
        : IndexOp("index_copy", IndexWords::Dimension, true);
    const auto type = self.scalar_type();
    if (!areOn(device, self, index, source) || mayDiffer(kernel, type) ||
        self.numel() == 0 || !hasIndexKernel(kernel, type, device)) {
      return false;
    }
    const auto from = withDim(source);
    const auto along = maybe_wrap_dim(dim, self.dim());
    if (!sameSlices(withDim(self), from, along)) {
      return false; // the host raises, or expands it
    }
    op.meta(self, dim, index, source, alpha...);
    const auto& result = op.maybe_get_output(0);
    copyUnlessSame(result, self);
    // Half and bfloat16 are added up in float, where to make it is less to do
    // than to sort the places.
    constexpr int64_t kEnough = 4;
    const auto sums =
        kernel == IndexKernel::Add && kEnough * source.numel() >= self.numel()
        ? at::toOpMathType(type)
        : type;
    const auto to = withDim(result).to(sums);
    runIndex(
        name,
        kernel,
        restrided(to, along, from.sizes()),
        from.to(sums),
        alongDim(index, along, to.dim()),
        rangeOf(to, along),
        alpha...);
    copyUnlessSame(withDim(result), to);
    return true;
  }
};

/// Whether there is a kernel, and nothing that the host would refuse.
bool canFill(const Tensor& self, const Tensor& index) {
  const auto device = self.device().index();
  return areOn(device, self, index) && index.scalar_type() == kLong &&
      index.dim() <= 1 && self.numel() > 0 &&
      at::has_internal_overlap(self) == MemOverlap::No &&
      hasIndexKernel(IndexKernel::Put, self.scalar_type(), device);
}

void fillAt(
    const Tensor& self,
    int64_t dim,
    const Tensor& index,
    const Tensor& value) {
  static const IndexOp name("index_fill_", IndexWords::Dimension, true);
  at::assert_no_overlap(self, index);
  const auto to = withDim(self);
  dim = maybe_wrap_dim(dim, to.dim());
  DimVector sizes(to.sizes());
  sizes[dim] = index.numel();
  runIndex(
      name,
      IndexKernel::Put,
      restrided(to, dim, sizes),
      value,
      alongDim(index, dim, to.dim()),
      rangeOf(to, dim, /*from_end=*/true));
}

bool indexFillNumber(
    const Tensor& self,
    int64_t dim,
    const Tensor& index,
    const Scalar& value) {
  if (!canFill(self, index) || (value.isComplex() && !self.is_complex())) {
    return false;
  }
  fillAt(self, dim, index, numberOn(self, value));
  return true;
}

bool indexFill(
    const Tensor& self,
    int64_t dim,
    const Tensor& index,
    const Tensor& value) {
  if (!canFill(self, index) || value.dim() > 0 ||
      value.device() != self.device() ||
      value.scalar_type() != self.scalar_type()) {
    return false;
  }
  fillAt(self, dim, index, value);
  return true;
}

/// The sizes of index_select's result, if there is a kernel and the host has
/// nothing to say.
c10::optional<DimVector> selectedSizes(
    const Tensor& self,
    int64_t dim,
    const Tensor& index) {
  const auto device = self.device().index();
  const auto type = index.scalar_type();
  if (!areOn(device, self, index) || index.dim() > 1 ||
      (type != kLong && type != kInt) ||
      (self.dim() == 0 && index.numel() != 1) ||
      (self.numel() == 0 && index.numel() > 0) ||
      !hasIndexKernel(IndexKernel::Take, self.scalar_type(), device)) {
    return c10::nullopt;
  }
  DimVector sizes(self.sizes());
  dim = maybe_wrap_dim(dim, self.dim());
  if (self.dim() > 0) {
    sizes[dim] = index.numel();
  }
  return sizes;
}

void selectTo(
    const Tensor& result,
    const Tensor& self,
    int64_t dim,
    const Tensor& index) {
  static const IndexOp name("index_select", IndexWords::Self, true);
  const auto to = withDim(result);
  const auto from = withDim(self);
  dim = maybe_wrap_dim(dim, from.dim());
  runIndex(
      name,
      IndexKernel::Take,
      to,
      restrided(from, dim, to.sizes()),
      alongDim(index, dim, from.dim()),
      rangeOf(from, dim));
}

Tensor indexSelect(const Tensor& self, int64_t dim, const Tensor& index) {
  const auto sizes = selectedSizes(self, dim, index);
  if (!sizes) {
    return {};
  }
  auto result = at::empty(*sizes, self.options());
  selectTo(result, self, dim, index);
  return result;
}

bool indexSelectOut(
    const Tensor& self,
    int64_t dim,
    const Tensor& index,
    const Tensor& out) {
  const auto sizes = selectedSizes(self, dim, index);
  if (!sizes || !areOn(self.device().index(), out) ||
      out.scalar_type() != self.scalar_type()) {
    return false;
  }
  assertApart(out, self, index);
  at::native::resize_output(out, *sizes);
  selectTo(out, self, dim, index);
  return true;
}

Tensor embeddingBackward(
    const Tensor& grad,
    const Tensor& indices,
    int64_t num_weights,
    int64_t padding_idx,
    bool scale_grad_by_freq) {
  static const IndexOp name("embedding_dense_backward", IndexWords::Self, true);
  const auto device = grad.device().index();
  const auto type = indices.scalar_type();
  if (!areOn(device, grad, indices) || (type != kLong && type != kInt) ||
      !hasIndexKernel(IndexKernel::Add, grad.scalar_type(), device)) {
    return {};
  }
  const auto index = alongDim(indices, 0, 2);
  const auto count = index.size(0);
  auto rows = grad.reshape({count, grad.size(-1)});
  const auto add = [&](const Tensor& to, const Tensor& from) {
    runIndex(
        name,
        IndexKernel::Add,
        restrided(to, 0, {count, to.size(1)}),
        from,
        index,
        rangeOf(to, 0));
  };
  if (scale_grad_by_freq) {
    const auto counts = at::zeros({num_weights, 1}, grad.options().dtype(kInt));
    add(counts, at::ones({}, counts.options()));
    const auto of_rows = counts.index_select(0, index.view(count));
    rows = (rows / of_rows.to(kFloat)).to(grad.scalar_type());
  }
  // Where many lead to one, items add them all at once, not one after the
  // other.
  const auto sums = count < num_weights ? rows.scalar_type()
                                        : at::toOpMathType(rows.scalar_type());
  const auto result =
      at::zeros({num_weights, rows.size(1)}, grad.options().dtype(sums));
  add(result, rows.to(sums));
  if (padding_idx >= 0 && padding_idx < num_weights) {
    result.select(0, padding_idx).zero_();
  }
  return result.to(grad.scalar_type());
}

// An index of the elements.

/// Whether a kernel does it: an index, and values for each of its elements or
/// for those that are taken.
bool canIndexElements(
    IndexKernel kernel,
    const Tensor& self,
    const Tensor& index,
    const Tensor& values) {
  const auto device = self.device().index();
  return areOn(device, self, index, values) && index.scalar_type() == kLong &&
      self.scalar_type() == values.scalar_type() &&
      (self.numel() > 0 || index.numel() == 0) &&
      hasIndexKernel(kernel, self.scalar_type(), device);
}

bool takeOut(const Tensor& self, const Tensor& index, const Tensor& out) {
  static const IndexOp name("take", IndexWords::Elements, true);
  if (!canIndexElements(IndexKernel::Take, self, index, out)) {
    return false;
  }
  assertApart(out, index, self);
  at::native::resize_output(out, index.sizes());
  if (index.numel() > 0) {
    runIndex(
        name,
        IndexKernel::Take,
        withDim(out),
        restrided(self.contiguous().view(-1), 0, {1}),
        withDim(index),
        {self.numel(), 1, /*from_end=*/true});
  }
  return true;
}

Tensor take(const Tensor& self, const Tensor& index) {
  const auto out = at::empty(index.sizes(), self.options());
  return takeOut(self, index, out) ? out : Tensor();
}

bool put(
    const Tensor& self,
    const Tensor& index,
    const Tensor& source,
    bool accumulate) {
  static const IndexOp name("put_", IndexWords::Elements, true);
  const auto kernel = accumulate ? IndexKernel::Add : IndexKernel::Put;
  if (!canIndexElements(kernel, self, index, source) ||
      source.numel() != index.numel() ||
      mayDiffer(kernel, self.scalar_type())) {
    return false;
  }
  assertApart(self, index, source);
  if (index.numel() > 0) {
    const auto to = self.contiguous();
    const auto from = withDim(source);
    runIndex(
        name,
        kernel,
        to.view(-1).as_strided(from.sizes(), DimVector(from.dim(), 0)),
        from,
        index.reshape(from.sizes()),
        {self.numel(), 1, /*from_end=*/true});
    copyUnlessSame(self, to);
  }
  return true;
}

// Indices of several dimensions.

/// What PyTorch's class of `index` makes of a tensor and its indices: the
/// tensor without the dimensions that are indexed, and one index in their
/// place.
struct Indexed {
  Tensor tensor;
  Tensor index;
  IndexRange range;
};

template <class Op, class Strides>
Indexed indexedBy(
    const IndexOp& name,
    const WithOutput<Op>& op,
    const Strides& indexed) {
  Indexed result;
  result.tensor = op.tensor(1);
  const auto size = int64_t(result.tensor.element_size());
  std::vector<Tensor> indices;
  std::vector<IndexRange> ranges;
  for (const auto i : c10::irange(indexed.sizes.size())) {
    indices.push_back(op.tensor(int(i) + 2));
    ranges.push_back(
        {indexed.sizes[i], indexed.strides[i] / size, true, int64_t(i)});
  }
  const bool one = indices.size() == 1;
  result.index = one ? indices[0] : indexPlaces(name, indices, ranges);
  result.range = one ? ranges[0] : rangeOfPlaces();
  return result;
}

const IndexOp& indexName() {
  static const IndexOp name("index", IndexWords::Dimension, true);
  return name;
}

/// Whether there is an index. Without one the host copies.
bool hasIndex(const Indices& indices) {
  for (const c10::optional<Tensor> index : indices) {
    if (index && index->defined()) {
      return true;
    }
  }
  return false;
}

struct Index {
  template <class Meta>
  static bool run(
      WithOutput<Meta>& op,
      DeviceIndex device,
      const Tensor& self,
      const Indices& indices) {
    if (!areOn(device, self) || !hasIndex(indices) ||
        !hasIndexKernel(IndexKernel::Take, self.scalar_type(), device)) {
      return false;
    }
    const auto found = op.meta(self, indices);
    const auto& result = op.maybe_get_output(0);
    if (result.numel() > 0) {
      const auto from = indexedBy(indexName(), op, found);
      runIndex(
          indexName(),
          IndexKernel::Take,
          result,
          from.tensor,
          from.index,
          from.range);
    }
    return true;
  }
};

/// A number that is put where a mask says is filled in: nothing needs to know
/// how often.
bool putByMask(
    const Tensor& self,
    const Indices& indices,
    const Tensor& value) {
  Tensor mask;
  int64_t before = 0;
  for (const c10::optional<Tensor> index : indices) {
    if (index && index->defined()) {
      if (mask.defined() || index->scalar_type() != kBool) {
        return false;
      }
      mask = *index;
    } else {
      before += mask.defined() ? 0 : 1;
    }
  }
  if (value.dim() != 0 || !mask.defined() || mask.device() != self.device() ||
      mask.dim() == 0 || before + mask.dim() > self.dim() ||
      mask.sizes() != self.sizes().slice(before, mask.dim())) {
    return false;
  }
  DimVector sizes(mask.sizes());
  sizes.append(self.dim() - before - mask.dim(), 1);
  Tensor(self).masked_fill_(mask.reshape(sizes), value);
  return true;
}

bool indexPut(
    const Tensor& self,
    const Indices& indices,
    const Tensor& values,
    bool accumulate,
    bool /*unsafe*/) {
  const auto device = self.device().index();
  const auto kernel = accumulate ? IndexKernel::Add : IndexKernel::Put;
  if (!areOn(device, self) || !hasIndex(indices) ||
      (!values.is_xpu() && values.dim() > 0) ||
      values.scalar_type() != self.scalar_type() ||
      indices.size() > size_t(self.dim()) ||
      at::has_internal_overlap(self) == MemOverlap::Yes ||
      mayDiffer(kernel, self.scalar_type()) ||
      !hasIndexKernel(kernel, self.scalar_type(), device)) {
    return false;
  }
  if (!accumulate && putByMask(self, indices, values)) {
    return true;
  }
  const auto from = values.is_xpu() ? values : numberOn(self, values.item());
  at::assert_no_overlap(self, from);
  for (const c10::optional<Tensor> index : indices) {
    if (index && index->defined()) {
      at::assert_no_overlap(self, *index);
    }
  }
  using Op = WithOutput<at::meta::structured_index_Tensor>;
  Op op(Op::Kind::None, Tensor());
  const auto found = op.meta(self, indices);
  const auto& shape = op.tensor(1).sizes();
  TORCH_CHECK(
      at::is_expandable_to(from.sizes(), shape),
      "shape mismatch: value tensor of shape ",
      from.sizes(),
      " cannot be broadcast to indexing result of shape ",
      shape);
  if (op.tensor(1).numel() > 0) {
    const auto to = indexedBy(indexName(), op, found);
    runIndex(indexName(), kernel, to.tensor, from, to.index, to.range);
  }
  return true;
}

void registerIndex(torch::Library& library) {
  addStructured<
      at::meta::structured_index_add,
      IntoDim<IndexKernel::Add>,
      at::_ops::index_add,
      at::_ops::index_add_,
      at::_ops::index_add_out>(library);
  addStructured<
      at::meta::structured_index_copy,
      IntoDim<IndexKernel::Put>,
      at::_ops::index_copy,
      at::_ops::index_copy_,
      at::_ops::index_copy_out>(library);
  addStructured<
      at::meta::structured_index_Tensor,
      Index,
      at::_ops::index_Tensor,
      at::_ops::index_Tensor_out>(library);
  addFunction<at::_ops::index_fill__int_Scalar, &indexFillNumber>(library);
  addFunction<at::_ops::index_fill__int_Tensor, &indexFill>(library);
  addFunction<at::_ops::index_select, &indexSelect>(library);
  addFunction<at::_ops::index_select_out, &indexSelectOut>(library);
  addFunction<at::_ops::embedding_dense_backward, &embeddingBackward>(library);
  addFunction<at::_ops::take, &take>(library);
  addFunction<at::_ops::take_out, &takeOut>(library);
  addFunction<at::_ops::put_, &put>(library);
  addFunction<at::_ops::_index_put_impl_, &indexPut>(library);
}

[[maybe_unused]] const bool kIndexAdded = addKernels(&registerIndex);

} // namespace

} // namespace at::xpu::detail
