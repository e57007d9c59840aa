#include <ATen/xpu/detail/OneDnn.h>

#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <ATen/xpu/detail/Plans.h>
#include <ATen/xpu/detail/RecordWork.h>
#include <c10/util/StringUtil.h>
#include <c10/util/irange.h>
#include <c10/xpu/XPUFunctions.h>
#include <c10/xpu/impl/XPUStreamPool.h>
#include <torch/library.h>

#include <dlfcn.h>
#include <sycl/device.hpp>
#include <sycl/queue.hpp>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

namespace at::xpu::detail {

namespace {

// Numbers of dnnl_types.h.
constexpr int kScratchpad = 80;
constexpr int kAnyFormat = 1;
constexpr int kUsm = 0;
constexpr int kScratchpadOfUser = 1;
constexpr int kFloatByTf32 = 4;
constexpr int kLinear = 0x26; // a factor and a summand
constexpr int kQueryName = 8;
constexpr int kQueryScratchpad = 136;
constexpr int kQueryArgument = 255;

constexpr uint32_t kIntel = 0x8086;
constexpr int kOldestOneDnn = 3; // of which the interface is

/// A function of the SYCL runtime, and where that is.
Dl_info syclFunction() {
  Dl_info found{};
  auto* const function = &sycl::device::get_devices;
  dladdr(reinterpret_cast<void*>(function), &found);
  return found;
}

void* openOneDnn() {
  // Of a oneAPI toolkit whose variables are set, or beside the SYCL runtime.
  std::vector<std::string> folders;
  if (const char* const root = std::getenv("DNNLROOT")) {
    folders.push_back(std::string(root) + "/lib/");
  }
  if (const char* const sycl = syclFunction().dli_fname) {
    const std::filesystem::path path(sycl);
    folders.push_back(path.parent_path().string() + "/");
  }
  folders.emplace_back(); // where the loader looks
  // It needs these and does not say where they are. SYCL loads them for a CPU.
  for (const auto* needed :
       {"libintlc.so.5", "libimf.so", "libsvml.so", "libtbb.so.12"}) {
    openLibrary(folders, {needed});
  }
  return openLibrary(folders, {"libdnnl.so.3"});
}

/// The library's engine for a device; null if there is none.
void* oneDnnEngine(DeviceIndex device) {
  static auto& engines = *new VendorHandles{
      "Products and convolutions",
      [](const sycl::device& device) {
        return device.get_info<sycl::info::device::vendor_id>() == kIntel;
      },
      [](DeviceIndex index, void** made) -> std::string {
        const auto& library = oneDnn();
        const auto* const its = &c10::xpu::get_raw_device(index);
        const auto* const context = &c10::xpu::get_device_context();
        const int status = library.problem.empty()
            ? library.create_engine(made, its, context)
            : 0;
        return status == 0
            ? library.problem
            : c10::str("dnnl_sycl_interop_engine_create returned ", status);
      }};
  return engines.of(device);
}

/// The library's stream for a queue. They are kept, as work that was launched
/// refers to them.
void* oneDnnStream(void* engine, sycl::queue& queue) {
  static auto& mutex = *new std::mutex();
  static auto& streams = *new std::unordered_map<sycl::queue, void*>();
  const std::lock_guard<std::mutex> lock(mutex);
  auto& stream = streams[queue];
  if (!stream && oneDnn().create_stream(&stream, engine, &queue) != 0) {
    stream = nullptr;
  }
  return stream;
}

VendorObject nothing() {
  return {nullptr, [](void*) { return 0; }};
}

/// What a function of the library makes by its first argument; empty if it
/// fails.
template <typename Create>
VendorObject make(int (*destroy)(void*), Create create) {
  void* made = nullptr;
  return create(&made) == 0 && made ? VendorObject(made, destroy) : nothing();
}

VendorObject makePrimitive(const VendorObject& description) {
  return make(oneDnn().destroy_primitive, [&](void** made) {
    return description ? oneDnn().create_primitive(made, description.get()) : 1;
  });
}

struct Argument {
  int argument;
  const void* description;
  void* data;
};

/// Gives the status.
int execute(
    const VendorObject& primitive,
    void* engine,
    void* stream,
    c10::ArrayRef<Argument> arguments,
    sycl::event& event) {
  const auto& library = oneDnn();
  std::vector<VendorObject>
      memories; // which work that was launched keeps alive
  std::vector<OneDnnArgument> given;
  for (const auto& one : arguments) {
    memories.push_back(make(library.destroy_memory, [&](void** made) {
      return library.create_memory(
          made, one.description, engine, kUsm, one.data);
    }));
    if (!memories.back()) {
      return 1;
    }
    given.push_back({one.argument, memories.back().get()});
  }
  const std::vector<sycl::event> after; // the queue is in order
  return library.execute(
      primitive.get(),
      stream,
      static_cast<int>(given.size()),
      given.data(),
      &after,
      &event);
}

/// How something is computed of arguments with some sizes and strides.
class OneDnnPlan {
 public:
  OneDnnPlan(
      void* engine,
      c10::ArrayRef<OneDnnData> data,
      const OneDnnRules& rules,
      OneDnnDescribe describe)
      : engine_(engine) {
    const auto& library = oneDnn();
    std::vector<VendorObject> wanted; // any format
    std::vector<const void*> described;
    for (const auto& one : data) {
      const auto dims = static_cast<int>(one.sizes.size());
      places_.emplace_back(make(library.destroy_description, [&](void** made) {
        return library.describe(
            made, dims, one.sizes.data(), one.type, one.strides.data());
      }));
      described.push_back(places_.back().given.get());
      if (one.any_format) {
        wanted.push_back(make(library.destroy_description, [&](void** made) {
          return library.describe_by_tag(
              made, dims, one.sizes.data(), one.type, kAnyFormat);
        }));
        described.back() = wanted.back().get();
      }
      if (!described.back() || !places_.back().given) {
        return;
      }
    }
    const auto attributes = attributesFor(rules);
    if (!attributes) {
      return;
    }
    description_ =
        make(library.destroy_primitive_description, [&](void** made) {
          return describe(engine, described, attributes.get(), made);
        });
    if (!description_ || isSlow(description_)) {
      return;
    }
    for (const auto i : c10::irange(data.size())) {
      auto& place = places_[i];
      place.used =
          library.query(description_.get(), kQueryArgument, data[i].argument);
      if (!place.used) {
        return;
      }
      if (library.equal(place.given.get(), place.used)) {
        continue;
      }
      const bool is_result = i + 1 == data.size();
      const auto reorder =
          make(library.destroy_primitive_description, [&](void** made) {
            const void* const from = is_result ? place.used : place.given.get();
            const void* const to = is_result ? place.given.get() : place.used;
            return library.describe_reorder(
                made, from, engine, to, engine, attributesFor({}).get());
          });
      place.bytes = library.size(place.used);
      place.reorder = makePrimitive(reorder);
      if (!place.reorder ||
          library.size(library.query(reorder.get(), kQueryScratchpad, 0)) > 0) {
        return;
      }
    }
    scratchpad_ = library.query(description_.get(), kQueryScratchpad, 0);
    works = (primitive_ = makePrimitive(description_)) != nullptr;
  }

  /// False, and nothing computed, if the library fails or memory is short.
  bool launch(
      const std::string& op,
      c10::xpu::XPUStream stream,
      c10::ArrayRef<OneDnnData> data) {
    const auto options = at::device(stream.device()).dtype(kByte);
    std::vector<Tensor> copies; // alive until it is launched
    std::vector<Argument> arguments;
    const auto allocate = [&](size_t bytes) {
      copies.push_back(at::empty({static_cast<int64_t>(bytes)}, options));
      return copies.back().data_ptr();
    };
    try {
      for (const auto i : c10::irange(data.size())) {
        const auto& place = places_[i];
        void* const used = place.reorder ? allocate(place.bytes) : data[i].data;
        arguments.push_back({data[i].argument, place.used, used});
      }
      if (const auto bytes = scratchpad_ ? oneDnn().size(scratchpad_) : 0) {
        arguments.push_back({kScratchpad, scratchpad_, allocate(bytes)});
      }
    } catch (const c10::OutOfMemoryError&) {
      return false;
    }
    void* const its = oneDnnStream(engine_, c10::xpu::impl::queueOf(stream));
    if (!its) {
      return false;
    }
    int status = 0;
    detail::launch(stream, op.c_str(), /*nbytes=*/0, [&](sycl::queue& queue) {
      sycl::event event;
      const auto reorder = [&](size_t i, bool back) {
        const auto& place = places_[i];
        if (place.reorder && status == 0) {
          const int in = back ? kOneDnnOutput : kOneDnnInput;
          const int out = back ? kOneDnnInput : kOneDnnOutput;
          Argument given{in, place.given.get(), data[i].data};
          Argument used{out, place.used, arguments[i].data};
          status = execute(place.reorder, engine_, its, {given, used}, event);
        }
      };
      for (const auto i : c10::irange(data.size() - 1)) {
        reorder(i, /*back=*/false);
      }
      if (status == 0) {
        status = execute(primitive_, engine_, its, arguments, event);
      }
      reorder(data.size() - 1, /*back=*/true);
      return status == 0 ? event : queue.ext_oneapi_submit_barrier();
    });
    works = status == 0;
    return works;
  }

  bool works = false;

 private:
  struct Place {
    explicit Place(VendorObject given) : given(std::move(given)) {}

    VendorObject given; // a description
    const void* used = nullptr; // a description of the primitive's
    VendorObject reorder = nothing(); // between them, if they differ
    size_t bytes = 0; // of a copy
  };

  /// Whether the library would compute it by what it has for its own tests.
  static bool isSlow(const VendorObject& description) {
    const char* name = nullptr;
    void* const place = static_cast<void*>(&name);
    return oneDnn().query_other(description.get(), kQueryName, 0, place) != 0 ||
        std::string(name).rfind("ref", 0) == 0;
  }

  static VendorObject attributesFor(const OneDnnRules& rules) {
    const auto& library = oneDnn();
    auto made = make(library.destroy_attributes, library.create_attributes);
    const auto later = make(library.destroy_later, library.create_later);
    int status = library.set_scratchpad(made.get(), kScratchpadOfUser);
    // Results are the same from run to run, as those of kernels are.
    status |= library.set_deterministic(made.get(), 1);
    if (rules.tf32) {
      status |= library.set_float(made.get(), kFloatByTf32);
    }
    if (rules.alpha != 1) {
      status |= library.add_factor(later.get(), kLinear, rules.alpha, 0);
    }
    if (rules.beta != 0) {
      status |= library.add_sum(later.get(), rules.beta, 0, /*type=*/0);
    }
    status |= library.set_later(made.get(), later.get());
    return status == 0 ? std::move(made) : nothing();
  }

  void* engine_;
  std::vector<Place> places_;
  VendorObject description_ = nothing();
  VendorObject primitive_ = nothing();
  const void* scratchpad_ = nullptr; // a description of the primitive's
};

} // namespace

OneDnn::OneDnn()
    : VendorLibrary(
          openOneDnn(),
          "dnnl_",
          "libdnnl.so is not found. Install the package onednn") {
  if (version) {
    const auto& [major, minor, patch] = *version();
    setVersion(c10::str(major, ".", minor, ".", patch), major >= kOldestOneDnn);
  }
  // What is passed is of C++, so that one runtime has to have made it.
  const auto sycl = syclFunction();
  if (problem.empty() && sycl.dli_sname &&
      dlsym(opened, sycl.dli_sname) != sycl.dli_saddr) {
    problem = path + " is for another SYCL runtime";
  }
}

const OneDnn& oneDnn() {
  static const auto& opened = *new OneDnn();
  return opened;
}

bool hasOneDnn(DeviceIndex device) {
  return at::globalContext().userEnabledMkldnn() && oneDnnEngine(device) &&
      // a graph of SYCL has no tasks of the host
      !c10::xpu::impl::isRecording(c10::xpu::getCurrentXPUStream(device));
}

int oneDnnTypeOf(ScalarType type) {
  switch (type) {
    case kHalf:
      return 1;
    case kBFloat16:
      return 2;
    case kFloat:
      return 3;
    case kDouble:
      return 7;
    default:
      return 0;
  }
}

bool computeByOneDnn(
    const std::string& op,
    DeviceIndex device,
    c10::ArrayRef<OneDnnData> data,
    const OneDnnRules& rules,
    OneDnnDescribe describe) {
  using Key = std::vector<int64_t>;
  static thread_local Plans<Key, std::unique_ptr<OneDnnPlan>> plans;
  const auto stream = c10::xpu::getCurrentXPUStream(device);
  Key key{device, rules.tf32};
  for (const auto factor : {rules.alpha, rules.beta}) {
    int32_t bits = 0;
    std::memcpy(&bits, &factor, sizeof(bits));
    key.push_back(bits);
  }
  key.insert(key.end(), rules.key.begin(), rules.key.end());
  for (const auto& one : data) {
    key.push_back(one.type);
    key.push_back(one.argument);
    key.push_back(static_cast<int64_t>(one.any_format));
    key.insert(key.end(), one.sizes.begin(), one.sizes.end());
    key.insert(key.end(), one.strides.begin(), one.strides.end());
  }
  auto* plan = plans.find(key);
  if (!plan) {
    auto made = std::make_unique<OneDnnPlan>(
        oneDnnEngine(device), data, rules, describe);
    plan = &plans.put(std::move(key), std::move(made));
  }
  return (*plan)->works && (*plan)->launch(op, stream, data);
}

// For torch/xpu/_libraries.py.
TORCH_LIBRARY_FRAGMENT(torch_xpu, m) {
  m.def("_one_dnn() -> (str, str, str)", [] { return oneDnn().words(); });
}

} // namespace at::xpu::detail
