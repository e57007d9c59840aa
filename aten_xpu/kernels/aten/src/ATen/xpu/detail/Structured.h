#pragma once

#include <ATen/ExpandUtils.h>
#include <ATen/TensorIterator.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/as_strided.h>
#include <c10/util/accumulate.h>

#if __has_include(<ATen/NamedTensorUtils.h>)
#include <ATen/NamedTensorUtils.h>
#define XPU_NAMES , DimnameList names
#define XPU_NAMES_GIVEN , names
#else // later releases have no names of dimensions
#define XPU_NAMES
#define XPU_NAMES_GIVEN
#endif

#include <array>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>

namespace at::xpu::detail {

/// The outputs of an operator, one or two.
class Outputs {
 public:
  enum class Kind {
    New,
    InPlace,
    Out,
    None, // of its shape, but with memory for one element
  };

  /// They are undefined for new ones.
  Outputs(Kind kind, Tensor first, Tensor second)
      : kind_(kind), tensors_{std::move(first), std::move(second)} {}

  const Tensor& operator[](int64_t index) const {
    return tensors_[index];
  }

  /// Makes one, or checks the one that was given and resizes it.
  void prepare(
      int64_t index,
      IntArrayRef sizes,
      IntArrayRef strides,
      const TensorOptions& options);

  /// Makes it the first. Returns false if there is none, or the one that was
  /// given is not of this type.
  bool give(const Tensor& result);

 private:
  const Kind kind_;
  std::array<Tensor, 2> tensors_;
};

/// One of PyTorch's meta classes, with its outputs. The class has the checks,
/// the shapes and the types of an operator, and what is left to do for a
/// backend is to make the output or to give it its size. As PyTorch generates
/// it for the CPU.
template <class Meta>
class WithOutput final : public Meta {
 public:
  using Kind = Outputs::Kind;

  WithOutput(Kind kind, Tensor output, Tensor second = Tensor())
      : outputs_(kind, std::move(output), std::move(second)) {}

  const Tensor& maybe_get_output(int64_t index) final {
    return outputs_[index];
  }
  void set_output_strided(
      int64_t index,
      IntArrayRef sizes,
      IntArrayRef strides,
      TensorOptions options XPU_NAMES) final {
    set_output_raw_strided(index, sizes, strides, options XPU_NAMES_GIVEN);
  }
  void set_output_raw_strided(
      int64_t index,
      IntArrayRef sizes,
      IntArrayRef strides,
      TensorOptions options XPU_NAMES) final {
    outputs_.prepare(index, sizes, strides, options);
#if __has_include(<ATen/NamedTensorUtils.h>)
    if (!names.empty()) {
      namedinference::propagate_names(outputs_[index], names);
    }
#endif
    if constexpr (std::is_base_of_v<TensorIteratorBase, Meta>) {
      // It takes the output from maybe_get_output.
      TensorIteratorBase::set_output_raw_strided(
          index, sizes, strides, options XPU_NAMES_GIVEN);
    }
  }

  /// The output, of which the class says nothing: see Outputs.
  bool give(const Tensor& result) {
    return outputs_.give(result);
  }

 private:
  Outputs outputs_;
};

/// An argument as a meta class takes it.
template <typename T>
const T& metaArgument(const T& argument) {
  // NOLINTNEXTLINE(bugprone-return-const-ref-from-parameter): for one call
  return argument;
}
inline OptionalScalarRef metaArgument(const c10::optional<Scalar>& number) {
  return number ? OptionalScalarRef(*number) : OptionalScalarRef();
}
inline OptionalTensorRef metaArgument(const c10::optional<Tensor>& tensor) {
  return tensor && tensor->defined() ? OptionalTensorRef(*tensor)
                                     : OptionalTensorRef();
}

/// The tensor that may be there, or an undefined one.
inline Tensor tensorOf(const c10::optional<Tensor>& tensor) {
  return tensor && tensor->defined() ? *tensor : Tensor();
}

/// Whether there are elements, or no images along the first of `dims`
/// dimensions.
inline bool hasImages(const Tensor& tensor, int64_t dims) {
  const auto sizes = tensor.sizes();
  return tensor.numel() > 0 ||
      (tensor.dim() == dims && c10::multiply_integers(sizes.slice(1)) > 0);
}

/// Of which numbers of 32 bits say where they are.
constexpr int64_t kMostElements = std::numeric_limits<int32_t>::max();

/// Calls run(halves...) for both halves of tensors along their first dimension,
/// whose numbers are too large together. Returns false if it does.
template <typename Run, typename... Others>
bool inHalves(const Run& run, const Tensor& tensor, const Others&... others) {
  const auto images = tensor.size(0);
  const auto part = [&](int64_t begin, int64_t count) {
    const auto of = [&](const Tensor& all) {
      return all.defined() ? all.narrow(0, begin, count) : all;
    };
    return run(of(tensor), of(others)...);
  };
  return images > 1 && part(0, images / 2) &&
      part(images / 2, images - images / 2);
}

/// Gives a result what was written to another tensor in its place, if it was.
inline void copyUnlessSame(const Tensor& result, const Tensor& from) {
  if (!from.is_same(result)) {
    result.copy_(from);
  }
}

/// Gives an output the size of another tensor, as TensorIterator does: one that
/// had another size gets the order of its strides too.
inline void resizeAs(const Tensor& out, const Tensor& like) {
  if (at::native::resize_output(out, like.sizes())) {
    out.as_strided_(
        like.sizes(), at::infer_dense_strides(like.sizes(), like.strides()));
  }
}

/// Whether kernels for one take the other.
inline bool alike(const Tensor& tensor, const Tensor& other) {
  return !tensor.defined() ||
      (tensor.scalar_type() == other.scalar_type() &&
       tensor.device() == other.device());
}

#undef XPU_NAMES
#undef XPU_NAMES_GIVEN

} // namespace at::xpu::detail
