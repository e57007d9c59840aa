#pragma once

#include <c10/core/Stream.h>
#include <torch/csrc/Stream.h>

// What a torch.Stream holds differs between releases of PyTorch.

namespace torch {
namespace xpu {

inline c10::Stream streamOf(const THPStream& self) {
  return c10::Stream::unpack(self.cdata);
}

inline void setStream(THPStream& self, const c10::Stream& stream) {
  self.cdata = stream.pack();
}

} // namespace xpu
} // namespace torch
