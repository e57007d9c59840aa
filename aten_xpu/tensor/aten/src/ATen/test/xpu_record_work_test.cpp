#include <c10/xpu/test/impl/XPUTestUtil.h>

#include <ATen/xpu/detail/RecordWork.h>
#include <c10/xpu/XPUFunctions.h>
#include <c10/xpu/XPUStream.h>

#include <chrono>

using namespace at::xpu::detail;
using namespace c10::xpu::test;
using c10::xpu::device_count;
using By = RecordWork::By;

namespace {

int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

} // namespace

TEST(XPURecordWorkTest, OfTheHostAndOfAStream) {
  C10_XPU_NEEDS_DEVICES(1);
  const auto stream = c10::xpu::getStreamFromPool();
  {
    const RecordWork early(By::Host, "early", stream);
  }
  startRecordingWork();
  EXPECT_ANY_THROW(startRecordingWork());
  const auto before = now();
  EXPECT_EQ(exchangeWorkCorrelation(7), 0);
  {
    const RecordWork host(By::Host, "host", stream);
  }
  EXPECT_EQ(exchangeWorkCorrelation(8), 7);
  int64_t open = 0;
  {
    const Gate gate(stream.queue());
    const RecordWork copy(By::Stream, "copy", stream, 4096);
    open = now();
  }
  EXPECT_EQ(exchangeWorkCorrelation(0), 8);
  const auto records = stopRecordingWork();
  {
    const RecordWork late(By::Host, "late", stream);
  }

  ASSERT_EQ(records.size(), 2);
  EXPECT_EQ(records[0].name, "host");
  EXPECT_EQ(records[0].nbytes, 0);
  EXPECT_EQ(records[0].correlation, 7);
  EXPECT_GE(records[0].begin, before);
  EXPECT_GE(records[0].end, records[0].begin);
  EXPECT_EQ(records[1].name, "copy");
  EXPECT_EQ(records[1].stream, stream);
  EXPECT_EQ(records[1].nbytes, 4096);
  EXPECT_EQ(records[1].correlation, 8);
  EXPECT_GE(records[1].end, records[1].begin);
  // It waited for the gate. The device's clock is read a little after its
  // event.
  EXPECT_GE(records[1].end, open - 10'000'000);

  startRecordingWork();
  EXPECT_TRUE(stopRecordingWork().empty());
}
