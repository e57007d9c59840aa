#pragma once

#include <c10/xpu/test/impl/XPUTestUtil.h>
