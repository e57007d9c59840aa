#include <ATen/xpu/detail/Index.h>

#include <ATen/ATen.h>
#include <ATen/OpMathType.h>
#include <ATen/TensorIterator.h>
#include <ATen/xpu/detail/KernelSources.h>
#include <ATen/xpu/detail/Strides.h>
#include <ATen/xpu/detail/Structured.h>
#include <c10/util/irange.h>
#include <c10/xpu/XPUGuard.h>

#include <algorithm>
#include <array>
#include <limits>
#include <vector>

namespace at::xpu::detail {

namespace {

std::string indexSourceOf(int type) {
  constexpr const char* kIndex =
#include <ATen/xpu/kernels/Index.sycl>
      ;
  auto source = typedSource(type) + atomicSource();
  source += MOVED & (1 << type) ? "#define XPU_MOVES\n" : "";
  source += type == i64 ? "#define XPU_PLACES\n" : "";
  source += FLOATING & (1 << type) ? "#define XPU_SUMS\n" : "";
  return source + kIndex;
}

const KernelFamily kIndexFamily("index", &indexSourceOf);
const NamedKernel kTake(kIndexFamily, "index_take");
const NamedKernel kPut(kIndexFamily, "index_put");
const NamedKernel kAdd(kIndexFamily, "index_add");
const NamedKernel kCombine(kIndexFamily, "index_combine");
const NamedKernel kIndexSums(kIndexFamily, "index_sums");
const NamedKernel kPlaces(kIndexFamily, "index_places");
const NamedKernel kNonzero(kIndexFamily, "nonzero");
const NamedKernel kTriangle(kIndexFamily, "triangle");
const NamedKernel kSequence(kIndexFamily, "sequence");

const NamedKernel& kernelOf(IndexKernel kernel) {
  return kernel == IndexKernel::Take ? kTake
      : kernel == IndexKernel::Put   ? kPut
      : kernel == IndexKernel::Add   ? kAdd
                                     : kCombine;
}

std::optional<KernelType> typeFor(
    const NamedKernel& kernel,
    ScalarType type,
    DeviceIndex device) {
  const bool moves =
      &kernel == &kTake || &kernel == &kPut || &kernel == &kTriangle;
  return moves && !c10::isQIntType(type) ? typeOfSize(c10::elementSize(type))
                                         : kernelType(type, device);
}

/// Of a kernel that there is.
KernelType needed(std::optional<KernelType> type) {
  TORCH_INTERNAL_ASSERT(type);
  return *type;
}

/// One launch for each part of the loop.
struct IndexCall {
  const IndexOp& op;
  const NamedKernel* kernel;
  KernelType type;
  DeviceIndex device;
  IndexRange range;
  int64_t stride; // as the kernel takes it
  uint32_t operation;
  KernelArgument alpha;
};

/// Moves two elements at once where they are side by side and are found by the
/// same index.
bool widen(
    IndexCall& call,
    const Pointers& pointers,
    DimVector& shape,
    std::array<DimVector, kOperands>& strides) {
  const auto size = int64_t(c10::elementSize(kKernelTypes[call.type].type));
  const auto whole = [&](int64_t bytes) { return bytes % (2 * size) == 0; };
  bool wide = (call.kernel == &kTake || call.kernel == &kPut) && size < 8 &&
      !shape.empty() && shape[0] % 2 == 0 && strides[2][0] == 0 &&
      whole(call.stride);
  for (size_t k = 0; wide && k < 2; ++k) {
    wide = strides[k][0] == size &&
        whole(int64_t(reinterpret_cast<uintptr_t>(pointers[k]))) &&
        std::all_of(strides[k].begin() + 1, strides[k].end(), whole);
  }
  if (wide) {
    call.type = needed(typeOfSize(2 * size));
    call.alpha = kernelNumber(1, call.type); // of the size that it takes
    shape[0] /= 2;
    strides[0][0] = strides[1][0] = 2 * size;
  }
  return wide;
}

void launchPart(IndexCall call, const TensorIteratorBase& iter) {
  Pointers pointers{};
  std::array<DimVector, kOperands> moves;
  for (const auto k : c10::irange(iter.ntensors())) {
    pointers[k] = static_cast<char*>(iter.data_ptr(k));
    moves[k] = DimVector(iter.strides(k));
  }
  DimVector shape(iter.shape());
  while (widen(call, pointers, shape, moves)) {
  }
  auto strides = noStrides(iter.ndim());
  for (const auto k : c10::irange(iter.ntensors())) {
    strides[k] = moves[k];
  }
  const auto& range = call.range;
  eachStrided(
      pointers,
      shape,
      strides,
      [&](const Pointers& moved,
          uint32_t count,
          c10::ArrayRef<KernelArgument> given) {
        c10::SmallVector<KernelArgument, 32> arguments{
            moved[0],
            moved[1],
            moved[2],
            range.size,
            call.stride,
            range.from_end ? -range.size : int64_t(0),
            kernelErrors(call.device),
            call.op.code + uint32_t(range.dim),
            call.operation,
            call.alpha,
            count};
        arguments.append(given.begin(), given.end());
        call.kernel->launch(
            call.op.name, call.type, call.device, count, arguments);
      });
}

void launchIndex(
    const IndexCall& call,
    const Tensor& to,
    const Tensor& from,
    const Tensor& index) {
  auto iter = TensorIteratorConfig()
                  .set_check_mem_overlap(false) // strides of 0
                  .check_all_same_dtype(false)
                  .resize_outputs(false)
                  .add_owned_output(to)
                  .add_owned_input(from)
                  .add_owned_input(index)
                  .build();
  if (iter.numel() == 0) {
    return;
  }
  const c10::xpu::XPUGuard guard(call.device);
  if (iter.can_use_32bit_indexing()) {
    launchPart(call, iter);
  } else {
    for (auto& part : iter.with_32bit_indexing()) {
      launchPart(call, part);
    }
  }
}

/// By atomics what is added to one element has no order, and is rounded to the
/// type each time: sums of half and bfloat16 soon do not grow any more.
bool addsInOrder(IndexKernel kernel, ScalarType type) {
  return kernel == IndexKernel::Add && isFloatingType(type) &&
      (at::toOpMathType(type) != type ||
       at::globalContext().deterministicAlgorithms());
}

/// Sorts the places, for one item to add up what leads to one of them. It is in
/// rows, of the dimensions in which the index does not move, but the result
/// does.
void addInOrder(
    const IndexCall& call,
    const Tensor& to,
    const Tensor& from,
    const Tensor& index) {
  if (to.numel() == 0) {
    return;
  }
  auto places = index.expand(to.sizes());
  DimVector moves;
  DimVector stays;
  for (const auto d : c10::irange(to.dim())) {
    const bool is_row = places.stride(d) == 0 && to.stride(d) != 0;
    (is_row ? stays : moves).push_back(d);
  }
  for (const auto d : stays) {
    places = places.narrow(d, 0, 1);
  }
  places = indexPlaces(call.op, {places}, {call.range});
  for (const auto d : moves) { // a place that is nowhere stays negative
    if (to.stride(d) != 0) {
      places.add_(alongDim(
          at::arange(to.size(d), places.options()) * to.stride(d),
          d,
          to.dim()));
    }
  }
  DimVector order(moves);
  order.append(stays.begin(), stays.end());
  DimVector sizes{places.numel()};
  DimVector strides{0};
  for (const auto d : stays) {
    sizes.push_back(to.size(d));
    strides.push_back(to.stride(d));
  }
  const auto rows = from.expand(to.sizes()).permute(order).reshape(sizes);
  const auto sorted = places.permute(order).reshape(-1).sort(
      /*stable=*/true, /*dim=*/0, /*descending=*/false);
  const auto edges = at::full({places.numel() + 2, 2}, -1, places.options());
  const auto pairs = edges.slice(0, 1, -1);
  pairs.select(1, 0).copy_(std::get<0>(sorted));
  pairs.select(1, 1).copy_(std::get<1>(sorted));
  auto sums = call;
  sums.kernel = &kIndexSums;
  sums.stride = rows.stride(0) * int64_t(rows.element_size());
  launchIndex(
      sums,
      to.as_strided(sizes, strides),
      restrided(rows, 0, sizes),
      alongDim(pairs.select(1, 0), 0, rows.dim()));
}

} // namespace

const char* atomicSource() {
  return
#include <ATen/xpu/kernels/Atomic.sycl>
      ;
}

Tensor alongDim(const Tensor& index, int64_t dim, int64_t dims) {
  std::vector<int64_t> sizes(dims, 1);
  sizes[dim] = index.numel();
  return index.reshape(sizes);
}

bool sameSlices(const Tensor& a, const Tensor& b, int64_t dim) {
  bool same = a.dim() == b.dim();
  for (int64_t d = 0; same && d < a.dim(); ++d) {
    same = d == dim || a.size(d) == b.size(d);
  }
  return same;
}

/// Whether complex numbers are added, or moved, by their parts.
bool isByParts(IndexKernel kernel, ScalarType type) {
  return type == kComplexDouble ||
      (type == kComplexFloat && kernel == IndexKernel::Add);
}

bool hasIndexKernel(IndexKernel kernel, ScalarType type, DeviceIndex device) {
  if (isByParts(kernel, type)) {
    return hasIndexKernel(kernel, toRealValueType(type), device);
  }
  const auto& which = kernelOf(kernel);
  const auto known = typeFor(which, type, device);
  return known && which.find(*known, device);
}

void runIndex(
    const IndexOp& op,
    IndexKernel kernel,
    const Tensor& to,
    const Tensor& from,
    const Tensor& index,
    const IndexRange& range,
    const Scalar& alpha) {
  if (isByParts(kernel, to.scalar_type())) {
    const bool turns = alpha.isComplex();
    const auto given = at::view_as_real(turns ? from * alpha : from);
    auto of_part = range;
    of_part.stride *= 2;
    for (const auto part : c10::irange(2)) {
      const auto to_part = at::view_as_real(to).select(-1, part);
      const auto from_part = given.select(-1, part);
      const auto number = turns ? Scalar(1) : alpha;
      runIndex(op, kernel, to_part, from_part, index, of_part, number);
    }
    return;
  }
  const auto& which = kernelOf(kernel);
  const auto device = to.device().index();
  const auto type = needed(typeFor(which, to.scalar_type(), device));
  const auto launch =
      addsInOrder(kernel, to.scalar_type()) ? &addInOrder : &launchIndex;
  launch(
      {op,
       &which,
       type,
       device,
       range,
       range.stride * int64_t(to.element_size()),
       uint32_t(std::max(0, int(kernel) - int(IndexKernel::Multiply))),
       kernelNumber(alpha, type)},
      to,
      from,
      index.to(kLong));
}

IndexRange rangeOfPlaces() {
  return {std::numeric_limits<int64_t>::max(), 1};
}

Tensor indexPlaces(
    const IndexOp& op,
    ArrayRef<Tensor> indices,
    ArrayRef<IndexRange> ranges) {
  const auto result = at::empty(indices[0].sizes(), indices[0].options());
  for (const auto i : c10::irange(indices.size())) {
    launchIndex(
        {op,
         &kPlaces,
         i64,
         result.device().index(),
         ranges[i],
         ranges[i].stride,
         uint32_t(i > 0),
         int64_t(0)},
        result,
        indices[i], // is not read
        indices[i]);
  }
  return result;
}

bool mayDiffer(IndexKernel kernel, ScalarType type) {
  return at::globalContext().deterministicAlgorithms() &&
      (kernel == IndexKernel::Put ||
       (kernel == IndexKernel::Multiply &&
        !isIntegralType(type, /*includeBool=*/true)));
}

Tensor withDim(const Tensor& tensor) {
  return tensor.dim() == 0 ? tensor.unsqueeze(0) : tensor;
}

Tensor restrided(const Tensor& tensor, int64_t dim, IntArrayRef sizes) {
  DimVector strides(tensor.strides());
  strides[dim] = 0;
  return tensor.as_strided(sizes, strides);
}

IndexRange rangeOf(const Tensor& tensor, int64_t dim, bool from_end) {
  return {tensor.size(dim), tensor.stride(dim), from_end, dim};
}

Tensor numberOn(const Tensor& self, const Scalar& value) {
  return at::full({}, value, self.options());
}

void runNonzero(
    const std::string& op,
    const Tensor& column,
    const Tensor& counts,
    int64_t inner,
    int64_t size) {
  kNonzero.launch(
      op,
      i64,
      counts.device().index(),
      counts.numel(),
      {column.data_ptr(),
       counts.data_ptr(),
       column.stride(0),
       column.size(0),
       uint32_t(inner),
       uint32_t(size),
       uint32_t(counts.numel())});
}

bool runTriangle(
    const std::string& op,
    const Tensor& to,
    const Tensor& from,
    int64_t diagonal,
    bool upper) {
  const auto device = to.device().index();
  const auto type = typeFor(kTriangle, to.scalar_type(), device);
  if (!type || to.numel() > kMostElements || !kTriangle.find(*type, device)) {
    return false;
  }
  kTriangle.launch(
      op,
      *type,
      device,
      to.numel(),
      {to.data_ptr(),
       from.data_ptr(),
       uint32_t(to.size(-2)),
       uint32_t(to.size(-1)),
       diagonal,
       uint32_t(upper),
       uint32_t(to.numel())});
  return true;
}

bool hasSequences(const Tensor& tensor) {
  return kSequence.typeFor(tensor).has_value();
}

void runSequence(
    const std::string& op,
    const Tensor& to,
    const Sequence& numbers) {
  const auto device = to.device().index();
  const auto type = needed(kernelType(to.scalar_type(), device));
  const auto exact = type == f64 ? f64 : FLOATING & (1 << type) ? f32 : i64;
  kSequence.launch(
      op,
      type,
      device,
      to.numel(),
      {to.data_ptr(),
       kernelNumber(numbers.start, exact),
       kernelNumber(numbers.step, exact),
       kernelNumber(numbers.last, exact),
       uint32_t(numbers.middle),
       uint32_t(to.numel())});
}

} // namespace at::xpu::detail
