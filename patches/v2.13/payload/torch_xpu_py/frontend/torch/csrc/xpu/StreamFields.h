#pragma once

#include <c10/core/Stream.h>
#include <torch/csrc/Stream.h>

// What a torch.Stream holds differs between releases of PyTorch.

namespace torch::xpu {

inline c10::Stream streamOf(const THPStream& self) {
  return c10::Stream::unpack3(
      self.stream_id,
      static_cast<c10::DeviceIndex>(self.device_index),
      static_cast<c10::DeviceType>(self.device_type));
}

inline void setStream(THPStream& self, const c10::Stream& stream) {
  self.stream_id = stream.id();
  self.device_index = stream.device_index();
  self.device_type = static_cast<int64_t>(stream.device_type());
}

} // namespace torch::xpu
