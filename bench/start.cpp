// What the first use of a device takes, in fresh processes; and that nothing
// of the SYCL runtime is started before it.
//
// Usage: as the other programs; or `ours`, `raw` and `libraries`, which print
// what this program reads from itself.

#include "Child.h"
#include "Harness.h"
#include "Loaded.h"

#include <c10/xpu/XPUFunctions.h>

#include <sycl/context.hpp>
#include <sycl/device.hpp>
#include <sycl/platform.hpp>

#include <dirent.h>
#include <dlfcn.h>

#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

namespace {

using namespace bench;

/// As c10::xpu::device_count() under the mapping CPU, or another one on a
/// machine with GPUs: all devices, and a context for those that are wanted.
size_t enumerateRaw() {
  const char* mapping = std::getenv("TORCH_XPU_MAPPING");
  const bool cpu = mapping && std::string(mapping) == "CPU";
  std::vector<sycl::device> found;
  for (const auto& platform : sycl::platform::get_platforms()) {
    for (auto& device : platform.get_devices()) {
      if (cpu ? device.is_cpu() : device.is_gpu()) {
        found.push_back(device);
      }
    }
  }
  if (found.empty()) {
    std::cerr << "SYCL finds no such device\n";
    std::exit(1);
  }
  static auto* context =
      new sycl::context(cpu ? std::vector<sycl::device>{found[0]} : found);
  sink(context);
  return found.size();
}

/// Where the OpenCL loader finds the CPU device. The runtime finds this out by
/// itself, in the time that is measured.
void showOpenCL() {
  Dl_info info;
  using Function = std::vector<sycl::platform> (*)();
  const auto function = static_cast<Function>(&sycl::platform::get_platforms);
  if (dladdr(reinterpret_cast<void*>(function), &info) && info.dli_fname) {
    std::string path = info.dli_fname;
    path.erase(path.rfind('/') + 1);
    setenv(
        "OCL_ICD_FILENAMES", (path + "libintelocl.so").c_str(), /*replace=*/0);
  }
}

size_t threads() {
  size_t count = 0;
  const std::unique_ptr<DIR, int (*)(DIR*)> tasks(
      opendir("/proc/self/task"), &closedir);
  while (const dirent* entry = readdir(tasks.get())) {
    count += entry->d_name[0] != '.';
  }
  return count;
}

void printLibraries() {
  std::cout << "before=" << loadedBySycl() << " threads=" << threads();
  c10::xpu::device_count();
  std::cout << " after=" << loadedBySycl() << "\n";
}

double measure(bool ours) {
  if (!ours) {
    showOpenCL();
  }
  const double start = now();
  const size_t found =
      ours ? static_cast<size_t>(c10::xpu::device_count()) : enumerateRaw();
  const double took = now() - start;
  return found ? took : 0;
}

void enumeration(const Options& options) {
  const std::string id = "start.enumerate";
  if (!wanted(options, id)) {
    return;
  }
  std::vector<std::vector<double>> values(2);
  const double end = now() + (options.quick ? 2 : 12);
  for (size_t round = 0; round < 5 || now() < end; ++round) {
    for (size_t turn = 0; turn < 2; ++turn) {
      const size_t side = (round + turn) % 2;
      values[side].push_back(
          std::stod(runSelf({side == 0 ? "ours" : "raw"})) * 1e9);
    }
  }
  report(
      options,
      {id, "enumerate the devices in a fresh process", Bound::RatioAtMost, 1.1},
      {"device_count", "raw SYCL: devices and a context"},
      values);
}

} // namespace

int main(int argc, char** argv) {
  std::vector<std::string> words;
  const Options options = parseOptions(argc, argv, &words);
  if (words.empty()) {
    enumeration(options);
    if (wanted(options, "start.libraries")) {
      const std::string seen = runSelf({"libraries"});
      // And afterwards they are seen.
      check(
          "start.libraries",
          "nothing of SYCL is started before the first use",
          seen.rfind("before= threads=1 after=lib", 0) == 0);
    }
  } else if (words[0] == "libraries") {
    printLibraries();
  } else {
    std::cout << measure(words[0] == "ours") << "\n";
  }
  return 0;
}
