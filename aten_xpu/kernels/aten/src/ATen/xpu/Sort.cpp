#include <ATen/xpu/detail/Sort.h>

#include <ATen/ATen.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/xpu/detail/KernelSources.h>
#include <ATen/xpu/detail/KernelTypes.h>
#include <ATen/xpu/detail/Reduce.h>
#include <ATen/xpu/detail/Structured.h>
#include <c10/util/irange.h>
#include <c10/xpu/XPUFunctions.h>
#include <c10/xpu/XPUGuard.h>

#include <algorithm>

namespace at::xpu::detail {

namespace {

std::string sortSourceOf(int type) {
  constexpr const char* kSort =
#include <ATen/xpu/kernels/Sort.sycl>
      ;
  return typedSource(type) + kSort;
}

const KernelFamily kSortFamily("sort", &sortSourceOf, MOVED);
const NamedKernel kSortRows(kSortFamily, "sort_rows");
const NamedKernel kDigitCounts(kSortFamily, "sort_counts");
const NamedKernel kDigitSums(kSortFamily, "sort_sums");
const NamedKernel kDigitMove(kSortFamily, "sort_move");
const NamedKernel kSelectCounts(kSortFamily, "select_counts");
const NamedKernel kSelectDigit(kSortFamily, "select_digit");
const NamedKernel kSelectTally(kSortFamily, "select_tally");
const NamedKernel kSelectTake(kSortFamily, "select_take");
const NamedKernel kSearch(kSortFamily, "search");

// As in the source.
constexpr int64_t kDigits = 256;
constexpr int64_t kSelectedBits = 11;
constexpr int64_t kWaves = 8;

/// How elements of a type are compared, see Order in the source.
struct Order {
  KernelType type; // that stands for its size
  uint32_t form;
  uint64_t infinity;
};

std::optional<Order> findOrder(ScalarType type, bool descending) {
  constexpr uint32_t kSigned = 1;
  const uint32_t form = descending ? 2 : 0;
  switch (type) {
    case kDouble:
      return Order{i64, form, 0x7FF0000000000000};
    case kFloat:
      return Order{i32, form, 0x7F800000};
    case kHalf:
      return Order{bf16, form, 0x7C00};
    case kBFloat16:
      return Order{bf16, form, 0x7F80};
    case kLong:
      return Order{i64, form | kSigned, 0};
    case kInt:
      return Order{i32, form | kSigned, 0};
    case kShort:
      return Order{bf16, form | kSigned, 0};
    case kChar:
      return Order{u8, form | kSigned, 0};
    case kByte:
    case kBool:
      return Order{u8, form, 0};
    default:
      return std::nullopt;
  }
}

/// Of what canSort takes.
Order orderOf(ScalarType type, bool descending) {
  const auto order = findOrder(type, descending);
  TORCH_INTERNAL_ASSERT(order);
  return *order;
}

/// Rows of tensors without gaps.
struct SortedRows {
  const std::string& op;
  const Tensor& values;
  const Tensor& indices;
  const Tensor& self;
  Order order;
  DeviceIndex device;
  int64_t size; // of a row
  int64_t kept; // of its elements
  int64_t rows;
  int64_t group; // items
  int64_t tile; // elements of a group

  int64_t bits() const {
    return 8 * self.element_size();
  }

  Tensor scratch(int64_t size, ScalarType type = kInt) const {
    return at::empty({size}, indices.options().dtype(type));
  }

  /// Kernels get the order last, if at all.
  void launch(
      const NamedKernel& kernel,
      int64_t groups,
      std::initializer_list<KernelArgument> arguments,
      bool with_order = true) const {
    c10::SmallVector<KernelArgument, 16> all;
    for (const auto& argument : arguments) { // of append() GCC warns
      all.push_back(argument);
    }
    if (with_order) {
      all.append({order.form, order.infinity});
    }
    kernel.launch(op, order.type, device, groups * group, all, uint32_t(group));
  }

  /// Makes of each list of `parts` counts what is before each.
  Tensor sum(const Tensor& counts, int64_t lists, int64_t parts) const {
    constexpr int64_t kTogether = 64;
    const bool together = parts >= kTogether;
    auto sums = scratch(lists);
    launch(
        kDigitSums,
        together ? lists : (lists + group - 1) / group,
        {sums.data_ptr(),
         counts.data_ptr(),
         uint32_t(parts),
         uint32_t(together),
         uint32_t(lists)},
        /*with_order=*/false);
    return sums;
  }
};

/// Rows that fit into a tile.
void sortShort(const SortedRows& of) {
  const auto in_tile = std::min(of.tile / of.size, kDigits);
  of.launch(
      kSortRows,
      (of.rows + in_tile - 1) / in_tile,
      {of.values.data_ptr(),
       of.indices.data_ptr(),
       of.self.data_ptr(),
       uint32_t(of.size),
       uint32_t(of.kept),
       uint64_t(of.rows),
       uint32_t(in_tile)});
}

void sortLong(const SortedRows& of) {
  const auto tiles = (of.size + of.tile - 1) / of.tile;
  const auto lists = of.rows * kDigits;
  const auto counts = of.scratch(lists * tiles);
  // Keys and places, which go there and back. The last time they get to the
  // results, so that each second time before they may be there, too.
  Tensor keys, places;
  if (of.bits() > 8) {
    keys = at::empty_like(of.self);
    places = of.scratch(of.self.numel());
  }
  const void* from = of.self.data_ptr();
  const void* from_places = nullptr;
  for (int64_t shift = 0; shift < of.bits(); shift += 8) {
    const bool last = shift + 8 == of.bits();
    const bool to_result = (of.bits() - shift) / 8 % 2 == 1;
    const auto& to = to_result ? of.values : keys;
    const auto& to_places = to_result ? of.indices : places;
    of.launch(
        kDigitCounts,
        of.rows * tiles,
        {counts.data_ptr(),
         from,
         uint32_t(shift > 0),
         uint64_t(of.size),
         uint32_t(tiles),
         uint32_t(shift)});
    const auto sums = of.sum(counts, lists, tiles);
    of.launch(
        kDigitMove,
        of.rows * tiles,
        {to.data_ptr(),
         to_places.data_ptr(),
         last ? of.indices.data_ptr() : nullptr,
         from,
         from_places,
         counts.data_ptr(),
         sums.data_ptr(),
         uint64_t(of.size),
         uint32_t(tiles),
         uint32_t(shift)});
    from = to.data_ptr();
    from_places = to_places.data_ptr();
  }
}

/// The first ones of long rows, in the order in which they are there.
void select(const SortedRows& of) {
  constexpr int64_t kLeast = 8192; // elements of a group
  constexpr int64_t kAtOnce = 2048; // a multiple of what it has at once
  const auto groups = std::max(itemsWanted(of.device) / of.group, int64_t(1));
  const auto wanted_part = (of.self.numel() + groups - 1) / groups;
  const auto elements =
      (std::max(wanted_part, kLeast) + kAtOnce - 1) / kAtOnce * kAtOnce;
  const auto parts = (of.size + elements - 1) / elements;
  const auto all = of.rows * parts;
  const auto counts =
      at::zeros({of.rows << kSelectedBits}, of.indices.options().dtype(kInt));
  const auto prefixes = of.scratch(of.rows, of.self.scalar_type());
  const auto wanted = of.scratch(of.rows);
  for (auto known = of.bits(); known > 0;) {
    const bool first = known == of.bits();
    const auto shift = std::max(known - kSelectedBits, int64_t(0));
    of.launch(
        kSelectCounts,
        all,
        {counts.data_ptr(),
         first ? nullptr : prefixes.data_ptr(),
         of.self.data_ptr(),
         uint32_t(shift),
         uint32_t(known),
         uint64_t(of.size),
         uint32_t(parts),
         uint32_t(elements)});
    of.launch(
        kSelectDigit,
        of.rows,
        {prefixes.data_ptr(),
         wanted.data_ptr(),
         counts.data_ptr(),
         uint32_t(first ? of.kept : 0),
         uint32_t(shift),
         uint32_t(known)},
        /*with_order=*/false);
    known = shift;
  }
  const auto tally = of.scratch(2 * all);
  of.launch(
      kSelectTally,
      all,
      {tally.data_ptr(),
       prefixes.data_ptr(),
       of.self.data_ptr(),
       uint64_t(of.size),
       uint32_t(parts),
       uint32_t(elements)});
  of.sum(tally, 2 * of.rows, parts);
  of.launch(
      kSelectTake,
      all,
      {of.values.data_ptr(),
       of.indices.data_ptr(),
       tally.data_ptr(),
       prefixes.data_ptr(),
       wanted.data_ptr(),
       of.self.data_ptr(),
       uint32_t(of.kept),
       uint64_t(of.size),
       uint32_t(parts),
       uint32_t(elements)});
}

/// A tensor for results whose rows are side by side: itself, if it is such a
/// one and has nothing that is read.
Tensor rowsFor(const Tensor& result, const Tensor& self) {
  return result.is_alias_of(self) ? at::empty(result.sizes(), result.options())
                                  : writable(result, result.scalar_type());
}

/// Of tensors without gaps, along their last dimension.
void sortRows(
    const std::string& op,
    const Tensor& values,
    const Tensor& indices,
    const Tensor& self,
    bool descending,
    bool sorted) {
  const auto device = self.device().index();
  const auto& lanes = c10::xpu::get_device_properties(device).sub_group_sizes;
  const bool wide = *std::min_element(lanes.begin(), lanes.end()) >= 32;
  const auto group = kWaves * (wide ? 32 : 16);
  const auto size = self.size(-1);
  const auto kept = values.size(-1);
  const SortedRows of{
      op,
      values,
      indices,
      self,
      orderOf(self.scalar_type(), descending),
      device,
      size,
      kept,
      self.numel() / size,
      group,
      group * (wide ? 16 : 8) / (self.element_size() == 8 ? 2 : 1)};
  if (size <= of.tile) {
    sortShort(of);
  } else if (kept == size) {
    sortLong(of);
  } else if (!sorted || kept == 1) {
    select(of);
  } else if (kept > size / 4) { // soon as many as there are
    const auto all = at::empty_like(self);
    const auto all_indices = at::empty_like(self, indices.options());
    sortRows(op, all, all_indices, self, descending, sorted);
    values.copy_(all.narrow(-1, 0, kept));
    indices.copy_(all_indices.narrow(-1, 0, kept));
  } else {
    const auto some = at::empty_like(values);
    const auto some_indices = at::empty_like(indices);
    const auto order = at::empty_like(indices);
    sortRows(op, some, some_indices, self, descending, /*sorted=*/false);
    sortRows(op, values, order, some, descending, sorted);
    auto out = indices;
    at::gather_out(out, some_indices, -1, order);
  }
}

} // namespace

bool canSort(const Tensor& self) {
#if __has_include(<ATen/NamedTensorUtils.h>)
  if (self.has_names()) {
    return false;
  }
#endif
  const auto device = kernelDevice(self);
  const auto order = findOrder(self.scalar_type(), false);
  const auto longest = self.dim() == 0
      ? 1
      : *std::max_element(self.sizes().begin(), self.sizes().end());
  return device && order && !self.is_quantized() && longest <= kMostElements &&
      kSortRows.find(order->type, *device);
}

void sortTo(
    const std::string& op,
    const Tensor& values,
    const Tensor& indices,
    const Tensor& self,
    int64_t dim,
    bool descending,
    bool sorted) {
  if (values.numel() == 0) {
    return;
  }
  if (self.dim() == 0) {
    values.copy_(self);
    indices.zero_();
    return;
  }
  const c10::xpu::XPUGuard guard(self.device());
  dim = maybe_wrap_dim(dim, self.dim());
  const auto to = values.movedim(dim, -1);
  const auto to_indices = indices.movedim(dim, -1);
  const auto rows = rowsFor(to, self);
  const auto places = rowsFor(to_indices, self);
  sortRows(
      op, rows, places, self.movedim(dim, -1).contiguous(), descending, sorted);
  copyUnlessSame(to, rows);
  copyUnlessSame(to_indices, places);
}

void runSearch(
    const std::string& op,
    const Tensor& out,
    const Tensor& values,
    const Tensor& rows,
    const Tensor& sorter,
    bool right) {
  const auto device = out.device().index();
  const auto order = orderOf(values.scalar_type(), /*descending=*/false);
  const bool is_int = out.scalar_type() == kInt;
  kSearch.launch(
      op,
      order.type,
      device,
      out.numel(),
      {is_int ? nullptr : out.data_ptr(),
       is_int ? out.data_ptr() : nullptr,
       values.data_ptr(),
       rows.data_ptr(),
       pointerOf(sorter),
       uint32_t(out.numel()),
       uint32_t(rows.dim() == 1 ? 0 : values.size(-1)),
       uint32_t(rows.size(-1)),
       uint32_t(right),
       order.form,
       order.infinity});
}

} // namespace at::xpu::detail
