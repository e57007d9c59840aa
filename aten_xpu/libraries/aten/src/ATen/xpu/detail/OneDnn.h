#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/xpu/detail/ConvolutionCall.h>
#include <ATen/xpu/detail/Product.h>
#include <ATen/xpu/detail/VendorLibrary.h>
#include <c10/util/ArrayRef.h>
#include <c10/util/DimVector.h>
#include <c10/util/FunctionRef.h>

#include <cstddef>
#include <cstdint>
#include <string>

// oneDNN, Intel's library for products and convolutions, in its build with
// SYCL. It is opened where a program first multiplies or convolves on a device
// of Intel's, a CPU or a GPU: beside the SYCL runtime, where pip's package
// onednn has it, or wherever the loader finds it.

namespace at::xpu::detail {

/// Whether the device is Intel's, the library can be used for it and is not
/// turned off, and the current stream records no graph. If it cannot be used
/// for a GPU, that was said when it was first asked.
bool hasOneDnn(DeviceIndex device);

/// Launches the product on the current stream of the device, which is the
/// current one; false, and the result undefined, if the library is not there or
/// does not take it.
bool multiplyByOneDnn(const Product& product);

/// Whether it can be asked for a convolution of such an input.
bool convolvesByOneDnn(const Tensor& input);

/// Launches it as a product is, where the function above is true.
bool convolveByOneDnn(const ConvolutionCall& call);

// Its functions, as dnnl.h and dnnl_sycl.h declare them; handles are pointers,
// and enumerations are int.
struct OneDnnArgument {
  int argument;
  void* memory;
};
struct OneDnnVersion {
  int major, minor, patch;
};
struct OneDnn : VendorLibrary {
  OneDnn();

  const OneDnnVersion* (*version)() = find("version");
  // Only the build with SYCL has these four.
  int (*create_engine)(void**, const void* device, const void* context) =
      find("sycl_interop_engine_create");
  int (*create_stream)(void**, void* engine, void* queue) =
      find("sycl_interop_stream_create");
  int (*create_memory)(
      void**,
      const void* description,
      void* engine,
      int kind,
      void* data) = find("sycl_interop_memory_create");
  int (*execute)(
      const void* primitive,
      void* stream,
      int count,
      const OneDnnArgument* arguments,
      const void* after, // std::vector<sycl::event>
      void* event) = find("sycl_interop_primitive_execute");
  // All have these.
  int (*destroy_memory)(void*) = find("memory_destroy");
  int (*describe)(
      void**,
      int dims,
      const int64_t* sizes,
      int type,
      const int64_t* strides) = find("memory_desc_create_with_strides");
  int (*describe_by_tag)(
      void**,
      int dims,
      const int64_t* sizes,
      int type,
      int tag) = find("memory_desc_create_with_tag");
  int (*destroy_description)(void*) = find("memory_desc_destroy");
  int (*equal)(const void* left, const void* right) = find("memory_desc_equal");
  size_t (*size)(const void* description) = find("memory_desc_get_size");
  int (*create_attributes)(void**) = find("primitive_attr_create");
  int (*destroy_attributes)(void*) = find("primitive_attr_destroy");
  int (*set_scratchpad)(void* attributes, int mode) =
      find("primitive_attr_set_scratchpad_mode");
  int (*set_float)(void* attributes, int mode) =
      find("primitive_attr_set_fpmath_mode");
  int (*set_deterministic)(void* attributes, int value) =
      find("primitive_attr_set_deterministic");
  int (*create_later)(void**) = find("post_ops_create");
  int (*destroy_later)(void*) = find("post_ops_destroy");
  int (*add_factor)(void* later, int kind, float factor, float summand) =
      find("post_ops_append_eltwise");
  int (*add_sum)(void* later, float factor, int32_t zero, int type) =
      find("post_ops_append_sum");
  int (*set_later)(void* attributes, const void* later) =
      find("primitive_attr_set_post_ops");
  int (*describe_product)(
      void**,
      void* engine,
      const void* left,
      const void* right,
      const void* bias,
      const void* out,
      const void* attributes) = find("matmul_primitive_desc_create");
  int (*describe_forward)(
      void**,
      void* engine,
      int purpose,
      int algorithm,
      const void* input,
      const void* weight,
      const void* bias,
      const void* output,
      const int64_t* stride,
      const int64_t* dilation,
      const int64_t* padding,
      const int64_t* padding_after,
      const void* attributes) =
      find("convolution_forward_primitive_desc_create");
  int (*describe_input)(
      void**,
      void* engine,
      int algorithm,
      const void* input,
      const void* weight,
      const void* output,
      const int64_t* stride,
      const int64_t* dilation,
      const int64_t* padding,
      const int64_t* padding_after,
      const void* forward,
      const void* attributes) =
      find("convolution_backward_data_primitive_desc_create");
  int (*describe_weight)(
      void**,
      void* engine,
      int algorithm,
      const void* input,
      const void* weight,
      const void* bias,
      const void* output,
      const int64_t* stride,
      const int64_t* dilation,
      const int64_t* padding,
      const int64_t* padding_after,
      const void* forward,
      const void* attributes) =
      find("convolution_backward_weights_primitive_desc_create");
  int (*describe_reorder)(
      void**,
      const void* from,
      void* from_engine,
      const void* to,
      void* to_engine,
      const void* attributes) = find("reorder_primitive_desc_create");
  const void* (*query)(const void* primitive, int what, int index) =
      find("primitive_desc_query_md");
  int (*query_other)(const void* primitive, int what, int index, void*) =
      find("primitive_desc_query");
  int (*destroy_primitive_description)(void*) = find("primitive_desc_destroy");
  int (*create_primitive)(void**, const void* description) =
      find("primitive_create");
  int (*destroy_primitive)(void*) = find("primitive_destroy");
};

/// The library, opened if it was not.
const OneDnn& oneDnn();

// Numbers of dnnl_types.h: the arguments of what it computes.
constexpr int kOneDnnInput = 1; // or left
constexpr int kOneDnnOutput = 17;
constexpr int kOneDnnWeight = 33; // or right
constexpr int kOneDnnBias = 41;
constexpr int kOneDnnOfInput = 129; // gradients
constexpr int kOneDnnOfOutput = 145;
constexpr int kOneDnnOfWeight = 161;

/// Its number of a type; 0 if it has none.
int oneDnnTypeOf(ScalarType type);

/// An argument in memory. Sizes and strides are of elements.
struct OneDnnData {
  int argument = 0;
  int type = 0;
  c10::DimVector sizes{};
  c10::DimVector strides{};
  void* data = nullptr;
  bool any_format = false; // the library computes with a copy as it likes it
};

/// What else is computed with the result, and how.
struct OneDnnRules {
  bool tf32 = false; // may be used for float
  float alpha = 1; // the result is alpha times it,
  float beta = 0; // and beta times what lay there
  c10::ArrayRef<int64_t> key{}; // other numbers on which `describe` depends
};

/// Makes the library's description of what it computes, of memory descriptions,
/// and gives the status.
using OneDnnDescribe = c10::function_ref<int(
    void* engine,
    c10::ArrayRef<const void*> described,
    const void* attributes,
    void** primitive)>;

/// Launches what the library computes of `data`, of which the last is the
/// result; `describe` gets a description of each, in this order. False if the
/// library does not take it.
bool computeByOneDnn(
    const std::string& op,
    DeviceIndex device,
    c10::ArrayRef<OneDnnData> data,
    const OneDnnRules& rules,
    OneDnnDescribe describe);

} // namespace at::xpu::detail
