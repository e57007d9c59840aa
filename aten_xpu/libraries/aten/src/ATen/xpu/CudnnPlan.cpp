#include <ATen/ATen.h>
#include <ATen/xpu/detail/CudaLaunch.h>
#include <ATen/xpu/detail/CudnnGraph.h>
#include <ATen/xpu/detail/Plans.h>
#include <c10/util/Exception.h>
#include <c10/util/irange.h>
#include <c10/xpu/impl/XPUStreamPool.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <limits>
#include <utility>

namespace at::xpu::detail {

namespace {

// Numbers of cudnn_graph.h.
enum CudnnPlanKind {
  kEngineKind = 2,
  kConfigKind = 3,
  kHeuristicKind = 4,
  kPlanKind = 5,
  kGraphKind = 15,
  kPackKind = 16
};
enum CudnnPlanAttribute {
  kHeuristicMode = 200,
  kHeuristicGraph = 201,
  kHeuristicResults = 202,
  kConfigEngine = 300,
  kPlanHandle = 400,
  kPlanConfig = 401,
  kPlanWorkspace = 402,
  kGraphHandle = 800,
  kGraphOperations = 801,
  kPackIds = 1000,
  kPackPointers = 1001,
  kPackWorkspace = 1003,
  kEngineNotes = 1303
};
enum CudnnNote {
  kTensorCores = 0,
  kConvertsInputs = 1,
  kVaries = 4,
  kNotes = 10
};
enum CudnnHeuristic { kInstant = 0, kFallback = 2 };

constexpr int64_t kCudnnWorkspace = int64_t(1) << 30; // bytes

/// Of cuDNN 8 and of cuDNN 9, which has several.
bool isUnsupported(int status) {
  return status == 9 || (status >= 3000 && status < 4000);
}

/// That it takes no such graph needs no words.
void warnOfCudnn(int status) {
  if (status != 0 && !isUnsupported(status)) {
    TORCH_WARN_ONCE(
        "cuDNN could not compute what it was asked and said ",
        cudnn().words_of(status),
        ". Kernels compute it instead, and others like it.");
  }
}

/// Descriptors that the library has made, as many as it gives of an attribute.
std::vector<CudnnObject> getCudnnObjects(void* from, int attribute, int kind) {
  const auto& library = cudnn();
  const auto get = [&](int64_t wanted, int64_t& count, void* to) {
    return library.get_object(
        from, attribute, kDescriptorValue, wanted, &count, to);
  };
  int64_t count = 0;
  if (get(0, count, nullptr) != 0) {
    count = 0;
  }
  std::vector<CudnnObject> objects;
  std::vector<void*> pointers;
  for (int64_t i = 0; i < count; ++i) {
    void* made = nullptr;
    if (library.create_object(kind, &made) == 0) {
      objects.emplace_back(made, library.destroy_object);
      pointers.push_back(made);
    }
  }
  const auto wanted = static_cast<int64_t>(pointers.size());
  if (count == 0 ||
      get(wanted, count, static_cast<void*>(pointers.data())) != 0) {
    count = 0;
  }
  while (static_cast<int64_t>(objects.size()) > count) {
    objects.pop_back();
  }
  return objects;
}

} // namespace

/// The ways in which the library can compute a graph.
class CudnnPlan {
 public:
  struct Way {
    explicit Way(CudnnObject of) : config(std::move(of)) {}
    CudnnObject config;
    CudnnObject plan{nullptr, nullptr}; // made when it is first needed
    int64_t workspace = 0;
    bool works = true; // as far as is known
  };

  CudnnPlan(
      DeviceIndex device,
      const CudnnRules& rules,
      c10::function_ref<void(CudnnGraph&)> build) {
    const CudnnHandle handle(device, /*may_make=*/true);
    enterCuda(device);
    build(graph_);
    for (const auto* ids : {&graph_.in_memory_, &graph_.numbers_}) {
      ids_.insert(ids_.end(), ids->begin(), ids->end());
    }
    std::vector<void*> operations;
    operations.reserve(graph_.operations_.size());
    for (const auto& one : graph_.operations_) {
      operations.push_back(one.get());
    }
    void* const used = handle.get();
    void* const graph = graph_.describe(
        kGraphKind,
        {{kGraphHandle, kHandleValue, 1, &used},
         {kGraphOperations,
          kDescriptorValue,
          static_cast<int64_t>(operations.size()),
          operations.data()}});
    if (graph_.status_ != 0) {
      warnOfCudnn(graph_.status_);
      return;
    }
    for (const int mode : {kInstant, kFallback}) {
      int status = 0;
      const auto heuristic = makeCudnnObject(
          kHeuristicKind,
          {{kHeuristicGraph, kDescriptorValue, 1, &graph},
           {kHeuristicMode, kHeuristicValue, 1, &mode}},
          status);
      if (status == 0) {
        for (auto& config :
             getCudnnObjects(heuristic.get(), kHeuristicResults, kConfigKind)) {
          if (isAllowed(config.get(), rules)) {
            ways.push_back(std::make_unique<Way>(std::move(config)));
          }
        }
      }
    }
  }

  /// Makes the plan of a way that has none. False if it does not work.
  static bool prepare(Way& way, DeviceIndex device) {
    if (way.plan || !way.works) {
      return way.works;
    }
    const CudnnHandle handle(device, /*may_make=*/true);
    enterCuda(device);
    void* const used = handle.get();
    void* const config = way.config.get();
    int status = 0;
    way.plan = makeCudnnObject(
        kPlanKind,
        {{kPlanHandle, kHandleValue, 1, &used},
         {kPlanConfig, kDescriptorValue, 1, &config}},
        status);
    int64_t count = 0;
    way.works = status == 0 &&
        cudnn().get_object(
            way.plan.get(),
            kPlanWorkspace,
            kIntValue,
            1,
            &count,
            &way.workspace) == 0 &&
        way.workspace <= kCudnnWorkspace;
    return way.works;
  }

  /// Gives the library's status.
  int launch(
      const Way& way,
      c10::ArrayRef<void*> data,
      void* workspace,
      DeviceIndex device,
      bool is_captured,
      void* cuda_stream) const {
    std::vector<const void*> pointers(data.begin(), data.end());
    for (const auto& value : graph_.values_) {
      pointers.push_back(&value);
    }
    const auto count = static_cast<int64_t>(pointers.size());
    int status = 0;
    const auto pack = makeCudnnObject(
        kPackKind,
        {{kPackIds, kIntValue, count, ids_.data()},
         {kPackPointers, kPointerValue, count, pointers.data()},
         {kPackWorkspace, kPointerValue, 1, &workspace}},
        status);
    CudnnHandle handle(device, /*may_make=*/!is_captured);
    status = status == 0 ? handle.use(cuda_stream) : status;
    return status == 0
        ? cudnn().execute(handle.get(), way.plan.get(), pack.get())
        : status;
  }

  /// Puts first the way that took the least time.
  void measure(
      c10::xpu::XPUStream stream,
      c10::function_ref<bool(Way&)> launch) {
    constexpr std::ptrdiff_t kMostMeasured = 10;
    constexpr int kTimes = 4; // of which the first is not counted
    using Clock = std::chrono::steady_clock;
    auto best = Clock::duration::max();
    auto fastest = ways.begin();
    const auto count = static_cast<std::ptrdiff_t>(ways.size());
    const auto end = ways.begin() + std::min(count, kMostMeasured);
    for (auto way = ways.begin(); way != end; ++way) {
      auto start = Clock::now();
      bool works = true;
      for (int time = 0; works && time < kTimes; ++time) {
        works = launch(**way);
        if (time == 0) {
          stream.synchronize();
          start = Clock::now();
        }
      }
      stream.synchronize();
      if (works && Clock::now() - start < best) {
        best = Clock::now() - start;
        fastest = way;
      }
    }
    if (fastest != ways.end()) {
      std::rotate(ways.begin(), fastest, fastest + 1);
    }
    was_measured = true;
  }

  std::vector<std::unique_ptr<Way>> ways; // the best first
  bool was_measured = false;

 private:
  static bool isAllowed(void* config, const CudnnRules& rules) {
    const auto engines = getCudnnObjects(config, kConfigEngine, kEngineKind);
    std::array<int, kNotes> notes{};
    int64_t count = 0;
    if (engines.empty() ||
        cudnn().get_object(
            engines[0].get(),
            kEngineNotes,
            kNoteValue,
            kNotes,
            &count,
            notes.data()) != 0) {
      return false;
    }
    return std::none_of(
        notes.begin(),
        notes.begin() + std::min<int64_t>(count, kNotes),
        [&](int note) {
          return (note == kVaries && rules.deterministic) ||
              (note == kConvertsInputs && rules.is_float) ||
              (note == kTensorCores && rules.exact);
        });
  }

  CudnnGraph graph_;
  std::vector<int64_t> ids_; // of what a launch gives addresses for
};

namespace {

using CudnnKey = std::vector<int64_t>;

/// Plans are kept for each thread, which notes in them what works. Nothing if
/// one is to be made the next time.
std::shared_ptr<CudnnPlan> cudnnPlanOf(
    DeviceIndex device,
    c10::ArrayRef<CudnnData> data,
    const CudnnRules& rules,
    c10::function_ref<void(CudnnGraph&)> build) {
  static thread_local Plans<CudnnKey, std::shared_ptr<CudnnPlan>> plans;
  CudnnKey key{device, rules.deterministic, rules.exact, rules.measured};
  key.insert(key.end(), rules.key.begin(), rules.key.end());
  for (const auto& one : data) {
    key.push_back(static_cast<int64_t>(one.type));
    key.push_back(cudnnAlignment(one.data));
    key.insert(key.end(), one.sizes.begin(), one.sizes.end());
    key.insert(key.end(), one.strides.begin(), one.strides.end());
  }
  const auto* const known = plans.find(key);
  if (known && *known) {
    return *known;
  }
  std::shared_ptr<CudnnPlan> plan;
  if (known || !rules.patient) {
    plan = std::make_shared<CudnnPlan>(device, rules, build);
  }
  return plans.put(std::move(key), std::move(plan));
}

} // namespace

bool computeByCudnn(
    const std::string& op,
    DeviceIndex device,
    c10::ArrayRef<CudnnData> data,
    const CudnnRules& rules,
    c10::function_ref<void(CudnnGraph&)> build) {
  const auto plan = cudnnPlanOf(device, data, rules, build);
  if (!plan) {
    return false;
  }
  std::vector<void*> pointers;
  for (const auto& one : data) {
    pointers.push_back(one.data);
  }
  const auto stream = c10::xpu::getCurrentXPUStream(device);
  const bool records = c10::xpu::impl::isRecording(stream);
  auto too_much = std::numeric_limits<int64_t>::max(); // of memory
  const auto launch = [&](CudnnPlan::Way& way) {
    if (!CudnnPlan::prepare(way, device) || way.workspace >= too_much) {
      return false;
    }
    Tensor workspace;
    if (way.workspace > 0) {
      try {
        workspace = at::empty(
            {way.workspace},
            at::device(c10::Device(kXPU, device)).dtype(kByte));
      } catch (const c10::OutOfMemoryError&) {
        too_much = way.workspace;
        return false;
      }
    }
    void* const space = workspace.defined() ? workspace.data_ptr() : nullptr;
    int status = 0;
    launchOnCuda(stream, op, [&](void* cuda_stream) {
      status = plan->launch(way, pointers, space, device, records, cuda_stream);
      TORCH_CHECK(
          status == 0 || !records,
          "What cuDNN computes cannot be a part of a graph: it said ",
          cudnn().words_of(status));
    });
    if (status != 0) {
      way.works = false;
      warnOfCudnn(status);
    }
    return status == 0;
  };
  if (rules.measured && !plan->was_measured && !records) {
    plan->measure(stream, launch);
  }
  return std::any_of(plan->ways.begin(), plan->ways.end(), [&](auto& way) {
    return launch(*way);
  });
}

} // namespace at::xpu::detail
