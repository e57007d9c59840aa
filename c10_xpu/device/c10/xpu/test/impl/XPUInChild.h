#pragma once

#include <gtest/gtest.h>

#include <c10/xpu/XPUFunctions.h>

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <exception>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace c10 {
namespace xpu {
namespace test {

struct Ended {
  int code;
  std::string output;
};

/// Runs `body` in a forked child with these variables set ("" unsets one). A
/// child passes by returning an empty string; what it returns is the failure.
/// One that hangs is ended by a signal.
inline Ended inChild(
    const std::vector<std::pair<std::string, std::string>>& environment,
    const std::function<std::string()>& body) {
  std::array<int, 2> ends{};
  EXPECT_EQ(pipe(ends.data()), 0);
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    close(ends[0]);
    dup2(ends[1], STDERR_FILENO);
    for (const auto& [name, value] : environment) {
      value.empty() ? unsetenv(name.c_str())
                    : setenv(name.c_str(), value.c_str(), 1);
    }
    std::string failure;
    try {
      failure = body();
    } catch (const std::exception& error) {
      failure = error.what();
    }
    const std::string text = "[" + failure + "]";
    const auto written = write(ends[1], text.data(), text.size());
    _exit(failure.empty() && written > 0 ? 0 : 1);
  }
  close(ends[1]);
  std::string output;
  std::array<char, 4096> buffer{};
  ssize_t count = 0;
  while ((count = read(ends[0], buffer.data(), buffer.size())) > 0) {
    output.append(buffer.data(), static_cast<size_t>(count));
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status), output};
}

/// Runs a test's body in a child that is the first in its process to use XPU.
/// A program all of whose tests do so can repeat and shuffle them. A skip of
/// the body is one of the test.
inline void inFreshProcess(const std::function<void()>& body) {
  ASSERT_FALSE(is_device_pool_initialized())
      << "the process of the tests must not use XPU itself";
  const std::string skipped = "skipped";
  const auto ended = inChild({}, [&]() -> std::string {
    body();
    return ::testing::Test::HasFailure() ? "failed"
        : ::testing::Test::IsSkipped()   ? skipped
                                         : "";
  });
  if (ended.output.find("[" + skipped + "]") != std::string::npos) {
    GTEST_SKIP() << "as the child says above";
  }
  EXPECT_EQ(ended.code, 0) << ended.output;
}

} // namespace test
} // namespace xpu
} // namespace c10
