#pragma once

#include <c10/xpu/XPUStream.h>
#include <c10/xpu/test/impl/XPUTestUtil.h>
