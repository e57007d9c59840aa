#pragma once

#include <ATen/xpu/detail/Cudnn.h>
#include <c10/util/ArrayRef.h>
#include <c10/util/FunctionRef.h>
#include <c10/util/SmallVector.h>

#include <cstdint>
#include <deque>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

// What cuDNN computes is a graph of operations, see its "graph API": tensors
// in memory, tensors between two operations, and the operations.

namespace at::xpu::detail {

// Numbers of cudnn_graph.h.
enum class CudnnType {
  Float = 0,
  Double = 1,
  Half = 2,
  Int = 4,
  BFloat16 = 9,
  Long = 10,
  Bool = 11
};
enum class CudnnPoint {
  Add = 0,
  Multiply = 1,
  Divide = 6,
  Subtract = 9,
  Exp = 13,
  Log = 15,
  Identity = 21,
  GreaterEqual = 303,
  Index = 501,
  Select = 601
};
enum class CudnnReduce { Add = 0, Max = 3 };

std::optional<CudnnType> cudnnTypeOf(ScalarType type);

using CudnnSizes = c10::SmallVector<int64_t, 5>;

/// A tensor in memory. Sizes and strides are of elements.
struct CudnnData {
  CudnnType type{};
  CudnnSizes sizes{};
  CudnnSizes strides{};
  void* data = nullptr;
};

/// A descriptor of the library, or nothing if it could not be made.
using CudnnObject = VendorObject;

/// An attribute of a descriptor.
struct CudnnAttribute {
  template <typename T>
  CudnnAttribute(int name, int type, int64_t count, const T* values)
      : name(name),
        type(type),
        count(count),
        values(static_cast<const void*>(values)) {}

  int name;
  int type;
  int64_t count; // of the values; with none it is left out
  const void* values;
};

// Their types.
enum CudnnValue {
  kHandleValue = 0,
  kTypeValue = 1,
  kBoolValue = 2,
  kIntValue = 3, // of 64 bits
  kFloatValue = 4,
  kDoubleValue = 5,
  kPointerValue = 6,
  kModeValue = 7, // of a convolution
  kHeuristicValue = 8,
  kNoteValue = 11,
  kPointValue = 14,
  kDescriptorValue = 15,
  kReduceValue = 18,
  kDistributionValue = 29
};

/// Makes a descriptor and finalizes it, with the attributes that are given at
/// least once; or says why not. Makes none if something failed before.
CudnnObject makeCudnnObject(
    int kind,
    std::initializer_list<CudnnAttribute> attributes,
    int& status);

/// Of an address in memory, in bytes: no more than the library can use.
int64_t cudnnAlignment(const void* data);

class CudnnGraph {
 public:
  using Tensor = void*; // a descriptor that the graph owns

  /// One in memory, for which a launch gives the address.
  Tensor add(const CudnnData& data);
  /// One that is not in memory; without strides it is packed.
  Tensor between(CudnnType type, IntArrayRef sizes, IntArrayRef strides = {});
  /// A number for each element of tensors of four dimensions.
  Tensor number(float value);

  void convolve(
      ConvolutionWay way,
      CudnnType computed,
      Tensor input,
      Tensor weight,
      Tensor output,
      IntArrayRef padding,
      IntArrayRef stride,
      IntArrayRef dilation);
  /// The last two dimensions are the matrices'.
  void multiply(Tensor left, Tensor right, Tensor out);
  /// Of each element, with up to three arguments. `axis` is that of an index.
  void point(
      CudnnPoint what,
      std::initializer_list<Tensor> from,
      Tensor out,
      CudnnType computed = CudnnType::Float,
      int64_t axis = -1);
  /// Over the dimensions that `out` has 1 of.
  void reduce(CudnnReduce what, Tensor in, Tensor out);
  /// 1 with the probability `keep`, else 0, by Philox of two numbers of Long.
  void draw(Tensor seed, Tensor offset, double keep, Tensor out);
  /// The same elements by other strides.
  void reshape(Tensor in, Tensor out);

 private:
  friend class CudnnPlan;

  /// Adds a descriptor that is not an operation.
  void* describe(int kind, std::initializer_list<CudnnAttribute> attributes);
  Tensor addTensor(
      CudnnType type,
      IntArrayRef sizes,
      IntArrayRef strides,
      int64_t alignment,
      bool is_virtual,
      bool is_number);
  void addOperation(int kind, std::initializer_list<CudnnAttribute> attributes);

  std::vector<CudnnObject> objects_; // of which the operations are made
  std::vector<CudnnObject> operations_;
  int64_t tensors_ = 0; // their ids are 1 to this
  std::vector<int64_t> in_memory_; // ids
  std::vector<int64_t> numbers_; // ids
  std::deque<float> values_; // of the numbers
  int status_ = 0; // of the first that failed
};

/// What the graph depends on, beside its tensors in memory.
struct CudnnRules {
  c10::SmallVector<int64_t, 16> key;
  bool deterministic = false;
  bool is_float = false; // which is not converted to half
  bool exact = false; // float, and not by TF32
  bool measured = false; // the fastest in fact, not as the library thinks
  bool patient = false; // no plan, which takes long, before it is asked twice
};

/// Launches a graph on the current stream of the device, which is the current
/// one. `build` makes it, unless one for such tensors and rules is known; its
/// tensors in memory are `data`, in this order. False, and nothing computed, if
/// the library does not take it; the device has the library.
bool computeByCudnn(
    const std::string& op,
    DeviceIndex device,
    c10::ArrayRef<CudnnData> data,
    const CudnnRules& rules,
    c10::function_ref<void(CudnnGraph& graph)> build);

} // namespace at::xpu::detail
