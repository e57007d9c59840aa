#include <ATen/xpu/detail/KernelCache.h>

#include <c10/util/StringUtil.h>

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

namespace at::xpu::detail {

namespace {

namespace fs = std::filesystem;

constexpr const char* kSuffix = ".kernels";
constexpr const char* kMagic = "xpu-stack kernels 1";
constexpr uintmax_t kMostBytes = 256 << 20;

uint64_t hash(const std::string& bytes, uint64_t seed) {
  for (const unsigned char byte : bytes) {
    seed = (seed ^ byte) * 0x100000001B3; // FNV-1a
  }
  return seed;
}

std::string hex(uint64_t value) {
  std::array<char, 17> text{};
  snprintf(
      text.data(),
      text.size(),
      "%016llx",
      static_cast<unsigned long long>(value));
  return text.data();
}

constexpr uint64_t kSeed = 0xCBF29CE484222325;

fs::path pathOf(const std::string& folder, const std::string& key) {
  return fs::path(folder) / (digestOf(key) + kSuffix);
}

void append(std::string& to, const std::string& text) {
  to += c10::str(text.size(), "\n");
  to += text;
}

/// Reads what append() wrote.
struct Reader {
  const std::string& bytes;
  size_t at = 0;
  bool whole = true;

  std::string next() {
    const auto end = bytes.find('\n', at);
    size_t size = 0;
    for (auto i = at; whole && i < end; ++i) {
      whole = end != std::string::npos && end - at < 12 && isdigit(bytes[i]);
      size = size * 10 + (bytes[i] - '0');
    }
    whole &=
        end != std::string::npos && end > at && size <= bytes.size() - end - 1;
    if (!whole) {
      return "";
    }
    at = end + 1 + size;
    return bytes.substr(end + 1, size);
  }
};

std::optional<std::string> readFile(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return std::nullopt;
  }
  return std::string(std::istreambuf_iterator<char>(file), {});
}

/// Whether the whole file has the bytes now.
bool writeFile(const fs::path& path, const std::string& bytes) {
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  auto part = path;
  // of one thread: a process elsewhere may have the same number
  static std::atomic<unsigned> count{0};
  part += c10::str(
      ".", getpid(), "-", ++count, "-", std::random_device()(), ".part");
  {
    std::ofstream file(part, std::ios::binary);
    file << bytes;
    file.close();
    if (!file) {
      fs::remove(part, error);
      return false;
    }
  }
  fs::rename(part, path, error);
  return !error;
}

void removeOldest(const fs::path& folder) {
  struct Found {
    fs::file_time_type time;
    uintmax_t size;
    fs::path path;
  };
  std::vector<Found> files;
  uintmax_t all = 0;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    std::error_code gone; // another process may remove it
    const auto size = it->file_size(gone);
    const auto time = it->last_write_time(gone);
    const auto kind = it->path().extension();
    if (!gone && (kind == kSuffix || kind == ".part")) {
      files.push_back({time, size, it->path()});
      all += size;
    }
  }
  std::sort(files.begin(), files.end(), [](const Found& a, const Found& b) {
    return a.time < b.time;
  });
  for (const auto& file : files) {
    if (all <= kMostBytes) {
      break;
    }
    fs::remove(file.path, error);
    all -= file.size;
  }
}

/// The folder of images that came with this library.
std::string packageFolder() {
  Dl_info self{};
  if (!dladdr(reinterpret_cast<void*>(&kernelCacheFolder), &self) ||
      !self.dli_fname) {
    return "";
  }
  return (fs::path(self.dli_fname).parent_path() / "kernels").string();
}

std::optional<std::vector<KernelImage>> loadFrom(
    const std::string& folder,
    const std::string& key) {
  const auto path = pathOf(folder, key);
  const auto bytes = readFile(path);
  if (!bytes) {
    return std::nullopt;
  }
  Reader reader{*bytes};
  const bool ours = reader.next() == kMagic && reader.next() == key;
  const auto content = reader.next();
  if (!ours || reader.next() != hex(hash(content, kSeed)) || !reader.whole) {
    return std::nullopt;
  }
  std::vector<KernelImage> images;
  Reader inner{content};
  while (inner.whole && inner.at < content.size()) {
    auto kernel = inner.next();
    images.push_back({std::move(kernel), inner.next()});
  }
  if (!inner.whole) {
    return std::nullopt;
  }
  return images;
}

} // namespace

std::string digestOf(const std::string& text) {
  const auto first = hash(text, kSeed);
  return hex(first) + hex(hash(text, ~first));
}

std::string kernelCacheFolder() {
  static const std::string folder = []() -> std::string {
    if (const char* const given = std::getenv("TORCH_XPU_KERNEL_CACHE")) {
      return given == std::string("0") ? "" : given;
    }
    const char* const cache = std::getenv("XDG_CACHE_HOME");
    const char* const home = std::getenv("HOME");
    const fs::path base = cache && *cache ? fs::path(cache)
        : home && *home                   ? fs::path(home) / ".cache"
                                          : fs::path();
    return base.empty() ? "" : (base / "torch_xpu/kernels").string();
  }();
  return folder;
}

std::optional<std::vector<KernelImage>> loadKernels(const std::string& key) {
  auto images = loadFrom(packageFolder(), key);
  return images ? std::move(images) : loadKernels(kernelCacheFolder(), key);
}

std::optional<std::vector<KernelImage>> loadKernels(
    const std::string& folder,
    const std::string& key) {
  if (folder.empty()) {
    return std::nullopt;
  }
  auto images = loadFrom(folder, key);
  if (images) { // what is used is not old
    std::error_code error;
    fs::last_write_time(
        pathOf(folder, key), fs::file_time_type::clock::now(), error);
  }
  return images;
}

bool storeKernels(
    const std::string& folder,
    const std::string& key,
    const std::vector<KernelImage>& images) {
  std::string content;
  for (const auto& image : images) {
    append(content, image.kernel);
    append(content, image.code);
  }
  std::string bytes;
  append(bytes, kMagic);
  append(bytes, key);
  append(bytes, content);
  append(bytes, hex(hash(content, kSeed)));
  if (!writeFile(pathOf(folder, key), bytes)) {
    return false;
  }
  removeOldest(folder);
  return true;
}

std::optional<std::string> storeLog(
    const std::string& name,
    const std::string& text) {
  const auto folder = kernelCacheFolder();
  const auto path = fs::path(folder) / (name + ".log");
  if (folder.empty() || !writeFile(path, text)) {
    return std::nullopt;
  }
  return path.string();
}

} // namespace at::xpu::detail
