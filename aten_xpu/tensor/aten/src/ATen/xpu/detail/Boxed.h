#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <utility>

// The tensors in an argument or a result of an operator that is called boxed.

namespace at::xpu::detail {

template <typename Function>
void forEachTensor(const c10::IValue& value, const Function& function) {
  if (value.isTensor()) {
    function(value.toTensor());
  } else if (value.isTensorList()) {
    for (const Tensor& tensor : value.toTensorVector()) {
      function(tensor);
    }
  } else if (value.isOptionalTensorList()) {
    for (const auto& tensor : value.toOptionalTensorVector()) {
      if (tensor) {
        function(*tensor);
      }
    }
  }
}

/// A value with each of its tensors replaced.
template <typename Function>
c10::IValue mapTensors(c10::IValue value, const Function& function) {
  if (value.isTensor()) {
    return function(std::move(value).toTensor());
  }
  if (value.isTensorList()) {
    c10::List<Tensor> mapped;
    for (const Tensor& tensor : value.toTensorVector()) {
      mapped.push_back(function(tensor));
    }
    return mapped;
  }
  if (value.isOptionalTensorList()) {
    c10::List<c10::optional<Tensor>> mapped;
    for (const auto& tensor : value.toOptionalTensorVector()) {
      mapped.push_back(
          tensor ? c10::optional<Tensor>(function(*tensor)) : c10::nullopt);
    }
    return mapped;
  }
  return value;
}

} // namespace at::xpu::detail
