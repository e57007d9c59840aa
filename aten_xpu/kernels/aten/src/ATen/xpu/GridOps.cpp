#include <ATen/ATen.h>
#include <ATen/OpMathType.h>
#include <ATen/xpu/detail/Index.h>
#include <ATen/xpu/detail/KernelSources.h>
#include <ATen/xpu/detail/Reduce.h>
#include <ATen/xpu/detail/StructuredCall.h>
#include <c10/util/irange.h>

#include <array>

// Sampling at places of a grid, windows as columns, and bags of rows;
// kernels/Grid.sycl.

namespace at::xpu::detail {

namespace {

std::string gridSourceOf(int type) {
  constexpr const char* kGrid =
#include <ATen/xpu/kernels/Grid.sycl>
      ;
  return typedSource(type) + atomicSource() + kGrid;
}

const KernelFamily kGridFamily("grid", &gridSourceOf, FLOATING);
const NamedKernel kGridSample(kGridFamily, "grid_sample");
const NamedKernel kGridSampleBack(kGridFamily, "grid_sample_back");
const NamedKernel kColumns(kGridFamily, "columns");
const NamedKernel kBags(kGridFamily, "bags");

/// The type for a kernel and these tensors, if there is one.
template <typename... Tensors>
std::optional<KernelType> gridType(
    const NamedKernel& kernel,
    const Tensor& first,
    const Tensors&... others) {
  const auto fits = [](const Tensor& tensor) {
    return !tensor.defined() ||
        (tensor.layout() == kStrided && tensor.numel() <= kMostElements);
  };
  return !first.is_quantized() && (alike(others, first) && ...) &&
          fits(first) && (fits(others) && ...)
      ? kernel.typeFor(first)
      : std::nullopt;
}

/// An item for each of `items`. Numbers are of 32 bits.
void launchGrid(
    const std::string& op,
    const NamedKernel& kernel,
    KernelType type,
    DeviceIndex device,
    std::initializer_list<KernelArgument> tensors,
    IntArrayRef numbers,
    int64_t items) {
  c10::SmallVector<KernelArgument, 32> arguments;
  for (const auto& tensor : tensors) { // of append() GCC warns
    arguments.push_back(tensor);
  }
  for (const auto number : numbers) {
    arguments.emplace_back(uint32_t(number));
  }
  arguments.emplace_back(uint32_t(items));
  kernel.launch(op, type, device, items, arguments);
}

/// For images of `dims` dimensions, and PyTorch's numbers of modes.
template <int dims>
struct GridSample {
  static Tensor make(
      const Tensor& input,
      const Tensor& grid,
      int64_t mode,
      int64_t padding,
      bool corners) {
    static const std::string name = "aten::grid_sampler";
    const auto type = gridType(kGridSample, input, grid);
    if (!type || !isPlain(input, grid, mode)) {
      return {};
    }
    const c10::xpu::XPUGuard guard(input.device());
    const auto result = at::empty(sizesOf(input, grid), input.options());
    const auto from = input.contiguous();
    const auto places = grid.contiguous();
    launchGrid(
        name,
        kGridSample,
        *type,
        input.device().index(),
        {result.data_ptr(), from.data_ptr(), places.data_ptr()},
        numbersOf(input, grid, mode, padding, corners),
        result.numel());
    return result;
  }

  static std::tuple<Tensor, Tensor> make(
      const Tensor& grad,
      const Tensor& input,
      const Tensor& grid,
      int64_t mode,
      int64_t padding,
      bool corners,
      std::array<bool, 2> mask) {
    static const std::string name = "aten::grid_sampler_backward";
    const auto type = gridType(kGridSampleBack, input, grid, grad);
    if (!type || !isPlain(input, grid, mode) ||
        grad.sizes() != IntArrayRef(sizesOf(input, grid)) ||
        (mask[0] && at::globalContext().deterministicAlgorithms())) {
      return {};
    }
    const c10::xpu::XPUGuard guard(input.device());
    Tensor grad_input;
    if (mask[0]) { // what is added up is wider than half
      const auto wide = at::toOpMathType(input.scalar_type());
      grad_input = at::zeros(input.sizes(), input.options().dtype(wide));
    }
    const auto grad_grid = at::empty(grid.sizes(), grid.options());
    const auto from = input.contiguous();
    const auto places = grid.contiguous();
    const auto of_result = grad.contiguous();
    launchGrid(
        name,
        kGridSampleBack,
        *type,
        input.device().index(),
        {pointerOf(grad_input),
         grad_grid.data_ptr(),
         of_result.data_ptr(),
         from.data_ptr(),
         places.data_ptr()},
        numbersOf(input, grid, mode, padding, corners),
        grid.numel() / dims);
    return {
        mask[0] ? grad_input.to(input.scalar_type()) : grad_input, grad_grid};
  }

 private:
  static bool isPlain(const Tensor& input, const Tensor& grid, int64_t mode) {
    constexpr int64_t kCubic = 2;
    return input.dim() == dims + 2 && grid.dim() == dims + 2 &&
        input.size(0) == grid.size(0) && grid.size(-1) == dims &&
        input.numel() > 0 && grid.numel() > 0 && (dims == 2 || mode < kCubic);
  }

  static DimVector sizesOf(const Tensor& input, const Tensor& grid) {
    DimVector sizes(grid.sizes());
    sizes.insert(sizes.begin() + 1, input.size(1));
    sizes.pop_back();
    return sizes;
  }

  static std::array<int64_t, 9> numbersOf(
      const Tensor& input,
      const Tensor& grid,
      int64_t mode,
      int64_t padding,
      bool corners) {
    return {
        input.size(1),
        grid.numel() / dims / grid.size(0),
        dims,
        dims == 3 ? input.size(2) : 1,
        input.size(-2),
        input.size(-1),
        mode,
        padding,
        corners};
  }
};

/// Windows of an image; each becomes a column.
struct Windows {
  std::array<int64_t, 2> size, apart, before, stride, count;

  /// None if they are not plain.
  static std::optional<Windows> of(
      IntArrayRef image,
      IntArrayRef size,
      IntArrayRef dilation,
      IntArrayRef padding,
      IntArrayRef stride) {
    Windows result{};
    for (const auto numbers : {image, size, dilation, padding, stride}) {
      if (numbers.size() != 2) {
        return std::nullopt;
      }
    }
    for (const auto i : c10::irange(2)) {
      result.size[i] = size[i];
      result.apart[i] = dilation[i];
      result.before[i] = padding[i];
      result.stride[i] = stride[i];
      if (size[i] < 1 || dilation[i] < 1 || padding[i] < 0 || stride[i] < 1) {
        return std::nullopt;
      }
      const auto rest =
          image[i] + 2 * padding[i] - dilation[i] * (size[i] - 1) - 1;
      if (rest < 0) {
        return std::nullopt;
      }
      result.count[i] = rest / stride[i] + 1;
    }
    return result;
  }
  int64_t elements() const {
    return size[0] * size[1];
  }
  int64_t all() const {
    return count[0] * count[1];
  }
};

/// im2col: the windows are a view, which is copied.
struct ToColumns {
  static Tensor make(
      const Tensor& self,
      IntArrayRef size,
      IntArrayRef dilation,
      IntArrayRef padding,
      IntArrayRef stride) {
    const auto dims = self.dim();
    if (!gridType(kColumns, self) || (dims != 3 && dims != 4) ||
        !hasImages(self, 4)) {
      return {};
    }
    const auto windows = Windows::of(
        self.sizes().slice(dims - 2), size, dilation, padding, stride);
    if (!windows) {
      return {};
    }
    const c10::xpu::XPUGuard guard(self.device());
    const auto& [window, apart, before, step, count] = *windows;
    const auto channels = self.size(dims - 3);
    const auto planes = channels * (dims == 4 ? self.size(0) : 1);
    const auto image =
        (before[0] > 0 || before[1] > 0
             ? at::constant_pad_nd(
                   self, {before[1], before[1], before[0], before[0]})
             : self)
            .contiguous();
    const auto row = image.size(-1);
    const auto from = image.as_strided(
        {planes, window[0], window[1], count[0], count[1]},
        {image.size(-2) * row,
         apart[0] * row,
         apart[1],
         step[0] * row,
         step[1]});
    const auto result = at::empty(from.sizes(), self.options());
    result.copy_(from);
    const auto columns = channels * windows->elements();
    return dims == 4 ? result.view({self.size(0), columns, windows->all()})
                     : result.view({columns, windows->all()});
  }
};

/// col2im, which is its gradient.
struct FromColumns {
  static Tensor make(
      const Tensor& self,
      IntArrayRef image,
      IntArrayRef size,
      IntArrayRef dilation,
      IntArrayRef padding,
      IntArrayRef stride) {
    static const std::string name = "aten::col2im";
    const auto dims = self.dim();
    const auto type = gridType(kColumns, self);
    const auto windows = Windows::of(image, size, dilation, padding, stride);
    if (!type || !windows || (dims != 2 && dims != 3) || !hasImages(self, 3) ||
        self.size(-2) % windows->elements() != 0 ||
        self.size(-1) != windows->all()) {
      return {};
    }
    const c10::xpu::XPUGuard guard(self.device());
    DimVector sizes(self.sizes().slice(0, dims - 2));
    sizes.push_back(self.size(-2) / windows->elements());
    sizes.append(image.begin(), image.end());
    const auto result = at::empty(sizes, self.options());
    const auto columns = self.contiguous();
    const auto& [window, apart, before, step, count] = *windows;
    launchGrid(
        name,
        kColumns,
        *type,
        self.device().index(),
        {result.data_ptr(), columns.data_ptr()},
        {image[0],
         image[1],
         window[0],
         window[1],
         count[0],
         count[1],
         step[0],
         step[1],
         before[0],
         before[1],
         apart[0],
         apart[1]},
        result.numel());
    return result;
  }
};

constexpr int64_t kMeanOfBag = 1; // PyTorch's numbers of modes
constexpr int64_t kMaxOfBag = 2;

/// The sums, the bag of each index, how many indices of a bag count, and the
/// rows of the largest elements. Undefined if no kernel fits.
struct EmbeddingBag {
  static std::tuple<Tensor, Tensor, Tensor, Tensor> make(
      const Tensor& table,
      const Tensor& given_indices,
      const Tensor& given_offsets,
      bool /*scale_grad_by_freq*/,
      int64_t mode,
      bool /*sparse*/,
      const c10::optional<Tensor>& given_weights,
      bool include_last_offset,
      int64_t padding) {
    static const IndexOp name("embedding_bag", IndexWords::Self, true);
    static const IndexOp of_offsets(
        "embedding_bag",
        IndexWords::Given,
        false,
        "offsets[0] has to be 0, and no other may be below it or above the "
        "length of input");
    const auto weights = tensorOf(given_weights);
    const auto type = gridType(kBags, table, weights);
    const auto is_index = [](const Tensor& tensor) {
      const auto type = tensor.scalar_type();
      return tensor.dim() == 1 && (type == kLong || type == kInt);
    };
    if (!type || table.dim() != 2 || table.numel() == 0 ||
        !areOn(table.device().index(), given_indices, given_offsets) ||
        !is_index(given_indices) || !is_index(given_offsets) ||
        given_offsets.numel() == 0 || given_indices.numel() > kMostElements ||
        given_offsets.numel() > kMostElements / table.size(1) ||
        (weights.defined() &&
         (mode != 0 || weights.sizes() != given_indices.sizes()))) {
      return {};
    }
    const c10::xpu::XPUGuard guard(table.device());
    const auto device = table.device().index();
    const auto wide =
        promoteTypes(given_indices.scalar_type(), given_offsets.scalar_type());
    const auto indices = given_indices.to(kLong).contiguous();
    const auto offsets = given_offsets.to(kLong).contiguous();
    const auto of = table.contiguous();
    const auto scale = weights.defined() ? weights.contiguous() : weights;
    const auto bags = offsets.numel() - (include_last_offset ? 1 : 0);
    const auto columns = table.size(1);
    const auto result = at::empty({bags, columns}, table.options());
    const auto bag_of = at::zeros(indices.sizes(), indices.options());
    const auto counts = at::empty({bags}, indices.options());
    const auto rows = mode == kMaxOfBag
        ? at::empty({bags, columns}, indices.options())
        : at::empty({0}, indices.options());
    launchGrid(
        name.name,
        kBags,
        *type,
        device,
        {result.data_ptr(),
         rows.data_ptr(),
         counts.data_ptr(),
         bag_of.data_ptr(),
         of.data_ptr(),
         indices.data_ptr(),
         offsets.data_ptr(),
         pointerOf(scale),
         kernelErrors(device),
         padding},
        {name.code,
         of_offsets.code,
         table.size(0),
         columns,
         indices.numel(),
         offsets.numel(),
         mode},
        result.numel());
    return {result, bag_of.to(wide), counts.to(wide), rows.to(wide)};
  }
};

struct EmbeddingBagBackward {
  static Tensor make(
      const Tensor& grad,
      const Tensor& indices,
      const Tensor& offset2bag,
      const Tensor& bag_size,
      const Tensor& maximum_indices,
      int64_t num_weights,
      bool scale_grad_by_freq,
      int64_t mode,
      const c10::optional<Tensor>& per_sample_weights,
      int64_t padding_idx) {
    const auto weights = tensorOf(per_sample_weights);
    if (!gridType(kBags, grad, weights) ||
        !areOn(grad.device().index(), indices, offset2bag, bag_size) ||
        (mode == kMaxOfBag && maximum_indices.sizes() != grad.sizes())) {
      return {};
    }
    const c10::xpu::XPUGuard guard(grad.device());
    if (mode == kMaxOfBag) {
      const auto rows = maximum_indices.to(kLong); // -1 of an empty bag
      return at::zeros({num_weights, grad.size(1)}, grad.options())
          .scatter_add_(0, rows.clamp_min(0), grad.masked_fill(rows < 0, 0));
    }
    auto rows = grad.index_select(0, offset2bag);
    if (mode == kMeanOfBag) {
      const auto type = grad.scalar_type(); // counts may be too large for half
      const auto counts = bag_size.to(at::toOpMathType(type));
      rows = (rows / counts.index_select(0, offset2bag).unsqueeze(1)).to(type);
    }
    if (weights.defined()) {
      rows.mul_(weights.unsqueeze(1));
    }
    return at::embedding_dense_backward(
        rows, indices, num_weights, padding_idx, scale_grad_by_freq);
  }
};

struct SampleWeightsBackward {
  static Tensor make(
      const Tensor& grad,
      const Tensor& weight,
      const Tensor& indices,
      const Tensor& /*offsets*/,
      const Tensor& offset2bag,
      int64_t mode,
      int64_t padding_idx) {
    if (!gridType(kBags, grad, weight) || mode != 0 ||
        !areOn(grad.device().index(), indices, offset2bag) ||
        offset2bag.sizes() != indices.sizes()) {
      return {};
    }
    const c10::xpu::XPUGuard guard(grad.device());
    return (grad.index_select(0, offset2bag) * weight.index_select(0, indices))
        .sum(1)
        .masked_fill_(indices == padding_idx, 0);
  }
};

void registerGrid(torch::Library& library) {
  addUnstructured<at::_ops::grid_sampler_2d, GridSample<2>>(library);
  addUnstructured<at::_ops::grid_sampler_2d_backward, GridSample<2>>(library);
  addUnstructured<at::_ops::grid_sampler_3d, GridSample<3>>(library);
  addUnstructured<at::_ops::grid_sampler_3d_backward, GridSample<3>>(library);
  addUnstructured<at::_ops::im2col, ToColumns>(library);
  addUnstructured<at::_ops::im2col, ToColumns, at::_ops::im2col_out>(library);
  addUnstructured<at::_ops::col2im, FromColumns>(library);
  addUnstructured<at::_ops::col2im, FromColumns, at::_ops::col2im_out>(library);
  addUnstructured<at::_ops::_embedding_bag, EmbeddingBag>(library);
  addUnstructured<at::_ops::_embedding_bag_forward_only, EmbeddingBag>(library);
  addUnstructured<
      at::_ops::_embedding_bag_dense_backward,
      EmbeddingBagBackward>(library);
  addUnstructured<
      at::_ops::_embedding_bag_per_sample_weights_backward,
      SampleWeightsBackward>(library);
#ifdef XPU_LATER_OPERATORS // PyTorch 1.13 has it for all devices
  addOfOther<at::_ops::_embedding_bag_backward>(library);
#endif
}

[[maybe_unused]] const bool kGridAdded = addKernels(&registerGrid);

} // namespace

} // namespace at::xpu::detail
