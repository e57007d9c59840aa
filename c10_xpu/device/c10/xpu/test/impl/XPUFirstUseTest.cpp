#include <c10/xpu/test/impl/XPUFaults.h>
#include <c10/xpu/test/impl/XPUTestUtil.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <vector>

// The first use of XPU happens once in a process. So each of these tests makes
// a process of its own, before this one has used anything: the parent only
// forks, and the child's exit code and output are the result.

using namespace c10::xpu;
using namespace c10::xpu::test;

namespace {

std::string expectText(const std::string& text, const std::string& part) {
  return contains(text, part) ? "" : "'" + part + "' is not in: " + text;
}

std::string expectCount(int expected) {
  const int count = deviceCount();
  return count == expected ? "" : c10::str(count, " devices, not ", expected);
}

bool isLoaded(const std::string& library) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find(library) != std::string::npos) {
      return true;
    }
  }
  return false;
}

const std::pair<std::string, std::string> kCPU{"TORCH_XPU_MAPPING", "CPU"};
const std::pair<std::string, std::string> kOne{"TORCH_XPU_VIRTUAL_DEVICES", ""};

/// While set, every device is said to be a GPU of this backend.
std::optional<sycl::backend> seen_backend;

/// While set, devices can use each other's memory, and this enables it.
std::function<void()> enable_peers;

/// Devices that are parts of another one.
std::vector<sycl::device> halvesOf(const sycl::device& device) {
  using sycl::info::partition_property;
  const auto units = device.get_info<sycl::info::device::max_compute_units>();
  return device.create_sub_devices<partition_property::partition_equally>(
      std::max(units / 2, 1u));
}

/// Makes each call fail whose name contains `part`.
void failCallsTo(const char* part) {
  static const char* failing;
  failing = part;
  sycl_hook = [](const char* text) {
    if (contains(text, failing)) {
      throwInjected();
    }
  };
}

} // namespace

bool sycl::device::is_gpu() const {
  if (seen_backend) {
    return true;
  }
  return nextDefinition<bool(const sycl::device*)>(
      "_ZNK4sycl3_V16device6is_gpuEv")(this);
}

sycl::backend sycl::device::get_backend() const noexcept {
  if (seen_backend) {
    return *seen_backend;
  }
  return nextDefinition<sycl::backend(const sycl::device*)>(
      "_ZNK4sycl3_V16device11get_backendEv")(this);
}

bool sycl::device::ext_oneapi_can_access_peer(
    const sycl::device& peer,
    sycl::ext::oneapi::peer_access value) {
  using sycl::ext::oneapi::peer_access;
  return enable_peers ||
      nextDefinition<bool(sycl::device*, const sycl::device&, peer_access)>(
             "_ZN4sycl3_V16device26ext_oneapi_can_access_peerERKS1_NS0_3ext6one"
             "api11peer_accessE")(this, peer, value);
}

void sycl::device::ext_oneapi_enable_peer_access(const sycl::device& /*peer*/) {
  enable_peers();
}

class XPUFirstUseTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_FALSE(is_device_pool_initialized())
        << "the process of the tests must not use XPU itself";
  }

  static bool hasCpuDevice() {
    static const bool has_it =
        inChild({kCPU, kOne}, [] {
          return std::string(device_count() == 1 ? "" : "no device");
        }).code == 0;
    return has_it;
  }

  static void passes(
      const std::vector<std::pair<std::string, std::string>>& environment,
      const std::function<std::string()>& body) {
    if (!hasCpuDevice()) {
      GTEST_SKIP() << "SYCL has no CPU device here";
    }
    const auto ended = inChild(environment, body);
    EXPECT_EQ(ended.code, 0) << ended.output;
  }
};

TEST_F(XPUFirstUseTest, LoadingTheLibraryStartsNoRuntime) {
  passes({kCPU, kOne}, [] {
    if (isLoaded("libintelocl") || isLoaded("libur_adapter")) {
      return std::string("an adapter is loaded before the first use");
    }
    device_count();
    return std::string(
        isLoaded("libur_adapter") ? "" : "no adapter after the first use");
  });
}

TEST_F(XPUFirstUseTest, SignalsKeepTheirHandlers) {
  passes({kCPU, kOne}, [] {
    signal(SIGUSR1, [](int) {});
    const auto handlers = [] {
      std::vector<void (*)(int)> all;
      for (int number = 1; number < 32; ++number) {
        struct sigaction now{};
        sigaction(number, nullptr, &now);
        all.push_back(now.sa_handler);
      }
      return all;
    };
    const auto before = handlers();
    get_device_context();
    return std::string(handlers() == before ? "" : "a handler has changed");
  });
}

TEST_F(XPUFirstUseTest, WhatIsSetForOpenCLIsLeftAloneAndNamed) {
  const auto libraryIs = [](const std::string& library, const char* advice) {
    passes(
        {kCPU, kOne, {"OCL_ICD_VENDORS", ""}, {"OCL_ICD_FILENAMES", library}},
        [&] {
          // Without a platform, SYCL 2025.0 raises and later releases find no
          // device.
          const auto text = errorOf([] { current_device(); });
          const char* set = std::getenv("OCL_ICD_FILENAMES");
          if (std::getenv("OCL_ICD_VENDORS") || (set ? set : "") != library) {
            return std::string("the library has set a variable");
          }
          // A system-wide OpenCL may have found a CPU device all the same.
          return contains(text, "No XPU device") ? expectText(text, advice)
                                                 : "";
        });
  };
  libraryIs("", "needs OCL_ICD_FILENAMES=<path of libintelocl.so>");
  libraryIs("/nowhere.so", "OCL_ICD_FILENAMES=/nowhere.so shows no CPU device");
}

TEST_F(XPUFirstUseTest, GPUsOfEachBackendAreTaken) {
  const auto count = [](sycl::backend backend, const char* mapping) {
    passes({{"TORCH_XPU_MAPPING", mapping}, kOne}, [&]() -> std::string {
      seen_backend = backend; // the CPU device now looks like a GPU
      const bool expected = backend != sycl::backend::opencl;
      return device_count() == expected ? "" : "wrong number of devices";
    });
  };
  for (const char* mapping : {"GPU", "AUTO"}) {
    count(sycl::backend::ext_oneapi_level_zero, mapping);
    count(sycl::backend::ext_oneapi_cuda, mapping);
    count(sycl::backend::ext_oneapi_hip, mapping);
  }
  count(sycl::backend::opencl, "GPU");
}

TEST_F(XPUFirstUseTest, SetMappingBeforeTheFirstUseWins) {
  passes({{"TORCH_XPU_MAPPING", "GPU"}, kOne}, [] {
    set_mapping("CPU");
    const auto wrong = expectText(mapping(), "CPU");
    return wrong.empty() ? expectCount(1) : wrong;
  });
}

TEST_F(XPUFirstUseTest, AnUnknownMappingNamesTheKnownOnes) {
  passes({{"TORCH_XPU_MAPPING", "gpu"}}, [] {
    auto wrong = expectText(
        errorOf([] { device_count(); }),
        "Unknown XPU mapping 'gpu' (from TORCH_XPU_MAPPING): it must be one "
        "of GPU, CPU, AUTO, EXPLICIT");
    // and it can be mended in the same process
    setenv("TORCH_XPU_MAPPING", "CPU", 1);
    unsetenv("TORCH_XPU_VIRTUAL_DEVICES");
    return wrong.empty() ? expectCount(1) : wrong;
  });
  passes({}, [] {
    return expectText(
        errorOf([] { set_mapping("FPGA"); }),
        "Unknown XPU mapping 'FPGA' (from set_mapping)");
  });
}

TEST_F(XPUFirstUseTest, VirtualDevicesAreCounted) {
  for (int count : {1, 2, 3, 64}) {
    passes({kCPU, {"TORCH_XPU_VIRTUAL_DEVICES", std::to_string(count)}}, [&] {
      return expectCount(count);
    });
  }
}

TEST_F(XPUFirstUseTest, ABadNumberOfVirtualDevicesIsNamed) {
  for (const char* bad :
       {"0",
        "-1",
        "65",
        "two",
        "2x",
        " ",
        " 2",
        "+2",
        "99999999999999999999"}) {
    passes({kCPU, {"TORCH_XPU_VIRTUAL_DEVICES", bad}}, [&] {
      return expectText(
          errorOf([] { device_count(); }),
          c10::str(
              "TORCH_XPU_VIRTUAL_DEVICES='",
              bad,
              "' is not valid: it must be a whole number from 1 to 64"));
    });
  }
}

TEST_F(XPUFirstUseTest, MoreDevicesThanThereCanBeAreAnErrorThatSaysSo) {
  passes({{"TORCH_XPU_MAPPING", "EXPLICIT"}, kOne}, [] {
    const std::vector<sycl::device> many(65, sycl::device());
    seen_devices = &many;
    return expectText(
        errorOf([] { device_count(); }),
        "The mapping EXPLICIT finds 65 devices, but there can be at most 64 "
        "XPU devices: choose some with ONEAPI_DEVICE_SELECTOR");
  });
}

TEST_F(XPUFirstUseTest, MemoryOfADeviceThatIsLeftOutIsNamed) {
  passes({kCPU, kOne}, [] {
    const auto half = halvesOf(get_raw_device(0)).front();
    auto& context = get_device_context();
    void* ptr = sycl::malloc_device(64, get_raw_device(0), context);
    seen_owner = &half;
    const auto text = errorOf([&] { get_device_idx_from_pointer(ptr); });
    sycl::free(ptr, context);
    return expectText(
        text,
        " is memory of " + half.get_info<sycl::info::device::name>() +
            ", which the mapping CPU leaves out: choose another with "
            "TORCH_XPU_MAPPING, or ONEAPI_DEVICE_SELECTOR");
  });
}

// What SYCL says each time that peer access is enabled, and what we say then.
TEST_F(XPUFirstUseTest, PeerAccessIsNotPromisedWhereSyclRefusesIt) {
  if (!hasCpuDevice()) {
    GTEST_SKIP() << "SYCL has no CPU device here, which it can partition";
  }
  const auto enable = [](std::optional<sycl::errc> code, bool expected) {
    const auto ended = inChild(
        {{"TORCH_XPU_MAPPING", "EXPLICIT"}, {"TORCH_XPU_VIRTUAL_DEVICES", "2"}},
        [&]() -> std::string {
          const auto parts = halvesOf(sycl::device());
          seen_devices = &parts;
          int calls = 0;
          enable_peers = [&] {
            ++calls;
            if (code) {
              throw sycl::exception(sycl::make_error_code(*code), "the reason");
            }
          };
          // xpu:0 and xpu:1 are one device, xpu:2 and xpu:3 the other.
          const bool same = enable_peer_access(0, 1);
          for (int times : {1, 2}) {
            if (enable_peer_access(0, 2) != expected ||
                enable_peer_access(1, 3) != expected) {
              return c10::str("wrong answer, ", times);
            }
          }
          return same && calls == 1 ? "" : c10::str(same, calls, " calls");
        });
    EXPECT_EQ(ended.code, 0) << ended.output;
    EXPECT_EQ(contains(ended.output, "the reason"), !expected) << ended.output;
  };
  enable(std::nullopt, true);
  enable(sycl::errc::invalid, true); // it was enabled by another library
  enable(sycl::errc::runtime, false);
}

TEST_F(XPUFirstUseTest, NoDeviceWarnsOnceAndSaysWhatWasLookedFor) {
  const auto ended =
      inChild({kCPU, kOne, {"ONEAPI_DEVICE_SELECTOR", "level_zero:gpu"}}, [] {
        auto wrong = expectCount(0);
        device_count();
        return wrong.empty() ? expectText(
                                   errorOf([] { current_device(); }),
                                   "No XPU device is available with the "
                                   "mapping CPU (")
                             : wrong;
      });
  EXPECT_EQ(ended.code, 0) << ended.output;
  const std::string warning =
      "No XPU device is available with the mapping CPU (";
  const auto first = ended.output.find(warning);
  ASSERT_NE(first, std::string::npos) << ended.output;
  EXPECT_EQ(ended.output.find(warning, first + 1), std::string::npos);
  EXPECT_CONTAINS(ended.output, "TORCH_XPU_MAPPING=GPU takes");
  EXPECT_CONTAINS(ended.output, "devices (ONEAPI_DEVICE_SELECTOR may hide");
}

TEST_F(XPUFirstUseTest, AskingWhetherThereIsADeviceDoesNotWarn) {
  const auto ended =
      inChild({kCPU, kOne, {"ONEAPI_DEVICE_SELECTOR", "level_zero:gpu"}}, [] {
        return std::string(is_available() ? "a device is available" : "");
      });
  EXPECT_EQ(ended.code, 0) << ended.output;
  EXPECT_EQ(ended.output, "[]");
}

TEST_F(XPUFirstUseTest, ManyThreadsThatComeFirstFindOnePool) {
  passes({kCPU, kOne}, [] {
    constexpr size_t kThreads = 16;
    std::vector<const sycl::device*> found(kThreads);
    inThreads(kThreads, [&](size_t n) { found[n] = &get_raw_device(0); });
    for (const auto* device : found) {
      if (device != found[0]) {
        return std::string("two threads found different pools");
      }
    }
    return expectCount(1);
  });
}

TEST_F(XPUFirstUseTest, AFailedFirstUseMayBeTriedAgain) {
  for (const char* at : {"get_devices", "device::has"}) {
    passes({kCPU, kOne}, [&] {
      failCallsTo(at);
      auto wrong = expectText(errorOf([] { device_count(); }), "injected");
      if (is_device_pool_initialized()) {
        wrong += "; a failed first use left a pool behind";
      }
      sycl_hook = nullptr;
      return wrong.empty() ? expectCount(1) : wrong;
    });
  }
}

TEST_F(XPUFirstUseTest, CountingDevicesMakesNoContext) {
  passes({kCPU, kOne}, [] {
    static int contexts = 0;
    sycl_hook = [](const char* text) {
      contexts += contains(text, "queue::get_context");
    };
    device_count();
    set_device(0);
    if (contexts != 0) {
      return std::string("a context before it is asked for");
    }
    get_device_context();
    get_device_context();
    sycl_hook = nullptr;
    return contexts == 1 ? "" : c10::str(contexts, " contexts, not 1");
  });
}

TEST_F(XPUFirstUseTest, WithoutADefaultContextThereIsOneOfOurOwn) {
  passes({kCPU, kOne, {"SYCL_ENABLE_DEFAULT_CONTEXTS", "0"}}, [] {
    auto& context = get_device_context();
    if (&context != &get_device_context()) {
      return std::string("another context the second time");
    }
    const auto devices = context.get_devices().size();
    return devices == 1 ? "" : c10::str(devices, " devices in the context");
  });
}

TEST_F(XPUFirstUseTest, AFailedQueryOfPropertiesMayBeTriedAgain) {
  passes({kCPU, kOne}, [] {
    failCallsTo("device::has");
    const auto wrong =
        expectText(errorOf([] { get_device_properties(0); }), "injected");
    sycl_hook = nullptr;
    return get_device_properties(0).name.empty() ? "no name" : wrong;
  });
}

TEST_F(XPUFirstUseTest, AChildForkedDuringTheFirstUseGetsAnError) {
  passes({kCPU, kOne}, [] {
    static std::string wrong;
    // The thread that forks holds what the first use locks.
    sycl_hook = [](const char* text) {
      if (!contains(text, "get_devices")) {
        return;
      }
      sycl_hook = nullptr;
      const auto ended = inChild({}, [] {
        mapping();
        return expectText(
            errorOf([] { device_count(); }),
            "Cannot use XPU in a forked subprocess");
      });
      wrong = ended.code == 0 ? "" : c10::str(ended.code, ": ", ended.output);
    };
    const auto counted = expectCount(1);
    return wrong.empty() ? counted : wrong;
  });
}

TEST_F(XPUFirstUseTest, AChildForkedAfterTheFirstUseGetsAnError) {
  passes({kCPU, kOne}, [] {
    device_count();
    if (is_in_bad_fork()) {
      return std::string("the parent is said to be a forked child");
    }
    const auto ended = inChild({}, [] {
      if (!is_in_bad_fork()) {
        return std::string("the child does not know that it was forked");
      }
      for (const auto& text :
           {errorOf([] { device_count(); }),
            errorOf([] { current_device(); }),
            errorOf([] { set_device(0); })}) {
        auto wrong = expectText(text, "Cannot use XPU in a forked subprocess");
        if (!wrong.empty()) {
          return wrong;
        }
      }
      return std::string();
    });
    // the parent goes on as before
    return ended.code == 0 ? expectCount(1) : ended.output;
  });
}

TEST_F(XPUFirstUseTest, AChildForkedBeforeTheFirstUseWorks) {
  passes({kCPU, kOne}, [] {
    const auto ended = inChild({}, [] {
      return is_in_bad_fork() ? "said to be a bad fork" : expectCount(1);
    });
    return ended.code == 0 ? expectCount(1) : ended.output;
  });
}
