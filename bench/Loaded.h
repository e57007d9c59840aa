#pragma once

#include <fstream>
#include <string>

namespace bench {

/// The libraries that SYCL loads when it is used, of those that are mapped
/// into this process.
inline std::string loadedBySycl() {
  std::ifstream maps("/proc/self/maps");
  std::string found;
  for (std::string line; std::getline(maps, line);) {
    for (const char* name : {"libur_adapter", "libintelocl", "libze_loader"}) {
      if (line.find(name) != std::string::npos &&
          found.find(name) == std::string::npos) {
        found += std::string(found.empty() ? "" : ",") + name;
      }
    }
  }
  return found;
}

} // namespace bench
