#include <c10/xpu/XPUCachingAllocator.h>
#include <c10/xpu/XPUFunctions.h>
#include <c10/xpu/XPUMemoryTools.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/python_compat.h>
#include <torch/csrc/xpu/Bindings.h>

#include <frameobject.h>
#include <pybind11/stl.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace py = pybind11;

// Note [Stacks of Python for the allocator]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// The allocator asks for a stack in the thread that allocates or frees, with or
// without the GIL, and holds no lock of its own then. It drops stacks at any
// time, also with its locks held. To take the GIL there could deadlock with a
// thread that has it and waits for the allocator. So a stack does not give up
// its references to code objects itself: the next call with the GIL does.

namespace torch {
namespace xpu {
namespace {

namespace allocator = c10::xpu::XPUCachingAllocator;

struct Frame {
  PyCodeObject* code;
  int last_instruction;
};

std::mutex released_mutex;
// Never destroyed: the allocator outlives Python.
auto& released_frames = *new std::vector<Frame>();

/// Needs the GIL.
void releaseFrames() {
  std::vector<Frame> frames;
  {
    std::lock_guard<std::mutex> lock(released_mutex);
    frames.swap(released_frames);
  }
  for (const Frame& frame : frames) {
    Py_DECREF(frame.code);
  }
}

/// A stack of Python, the innermost frame first.
struct PythonStack final : allocator::GatheredContext {
  std::vector<Frame> frames;

  ~PythonStack() override {
    std::lock_guard<std::mutex> lock(released_mutex);
    released_frames.insert(released_frames.end(), frames.begin(), frames.end());
  }
};

std::shared_ptr<allocator::GatheredContext> gatherPythonStack() {
  if (!Py_IsInitialized()) {
    return nullptr;
  }
  // Operators release the GIL before they allocate.
  const py::gil_scoped_acquire gil;
  releaseFrames();
  auto stack = std::make_shared<PythonStack>();
  PyFrameObject* frame = PyEval_GetFrame();
  Py_XINCREF(frame);
  while (frame) {
    stack->frames.push_back({PyFrame_GetCode(frame), PyFrame_GetLasti(frame)});
    PyFrameObject* caller = PyFrame_GetBack(frame);
    Py_DECREF(frame);
    frame = caller;
  }
  return stack;
}

py::list framesOf(const std::shared_ptr<allocator::GatheredContext>& context) {
  py::list list;
  const auto* stack = dynamic_cast<const PythonStack*>(context.get());
  if (!stack) {
    return list;
  }
  for (const Frame& frame : stack->frames) {
    py::dict dict;
    dict["filename"] =
        py::reinterpret_borrow<py::object>(frame.code->co_filename);
    dict["name"] = py::reinterpret_borrow<py::object>(frame.code->co_name);
    dict["line"] = PyCode_Addr2Line(frame.code, frame.last_instruction);
    list.append(std::move(dict));
  }
  return list;
}

const char* nameOf(allocator::TraceEvent::Action action) {
  using Entry = allocator::TraceEvent;
  switch (action) {
    case Entry::ALLOC:
      return "alloc";
    case Entry::FREE_REQUESTED:
      return "free_requested";
    case Entry::FREE_COMPLETED:
      return "free_completed";
    case Entry::SEGMENT_ALLOC:
      return "segment_alloc";
    case Entry::SEGMENT_FREE:
      return "segment_free";
    case Entry::SNAPSHOT:
      return "snapshot";
    case Entry::OOM:
      return "oom";
  }
  return "unknown";
}

allocator::TraceEvent::Action actionOf(const std::string& name) {
  using Entry = allocator::TraceEvent;
  for (int action = Entry::ALLOC; action <= Entry::SNAPSHOT; ++action) {
    if (name == nameOf(static_cast<Entry::Action>(action))) {
      return static_cast<Entry::Action>(action);
    }
  }
  TORCH_CHECK_VALUE(
      name == "segment_map" || name == "segment_unmap", // never happen here
      "skip_actions has '",
      name,
      "', which is no action of the allocator");
  return Entry::SNAPSHOT;
}

/// The arguments are those of torch.xpu.memory._record_memory_history.
void recordMemoryHistory(
    const c10::optional<std::string>& enabled,
    const c10::optional<std::string>& context,
    const std::string& stacks,
    size_t max_entries,
    bool clear_history,
    const std::vector<std::string>& skip_actions) {
  using allocator::RecordContext;
  TORCH_CHECK_VALUE(
      !enabled || *enabled == "state" || *enabled == "all",
      "enabled must be None, 'state' or 'all', but is '",
      *enabled,
      "'");
  TORCH_CHECK_VALUE(
      !context || *context == "state" || *context == "alloc" ||
          *context == "all",
      "context must be None, 'state', 'alloc' or 'all', but is '",
      *context,
      "'");
  TORCH_CHECK_VALUE(
      stacks == "python" || stacks == "all",
      "stacks must be 'python' or 'all', but is '",
      stacks,
      "'");
  std::vector<allocator::TraceEvent::Action> skipped;
  skipped.reserve(skip_actions.size());
  for (const auto& name : skip_actions) {
    skipped.push_back(actionOf(name));
  }
  useXPU();
  const auto when = !enabled || !context ? RecordContext::NEVER
      : *context == "state"              ? RecordContext::STATE
      : *context == "alloc"              ? RecordContext::ALLOC
                                         : RecordContext::ALL;
  const bool with_trace = enabled && *enabled == "all";
  withoutGil([&] {
    allocator::recordHistory(
        enabled.has_value(),
        when == RecordContext::NEVER ? nullptr : &gatherPythonStack,
        with_trace ? max_entries : 0,
        when,
        clear_history,
        skipped);
  });
  releaseFrames();
}

const char* stateOf(const allocator::BlockInfo& block) {
  return block.allocated ? "active_allocated"
      : block.active     ? "active_pending_free"
                         : "inactive";
}

py::dict asDict(const allocator::SegmentInfo& segment) {
  py::list blocks;
  int64_t address = segment.address;
  for (const auto& block : segment.blocks) {
    py::dict entry;
    entry["address"] = address;
    entry["size"] = block.size;
    entry["requested_size"] = block.requested_size;
    entry["state"] = stateOf(block);
    entry["frames"] =
        framesOf(block.active ? allocator::contextOf(address) : nullptr);
    blocks.append(std::move(entry));
    address += block.size;
  }
  py::dict dict;
  dict["device"] = segment.device;
  dict["address"] = segment.address;
  dict["total_size"] = segment.total_size;
  dict["requested_size"] = segment.requested_size;
  dict["allocated_size"] = segment.allocated_size;
  dict["active_size"] = segment.active_size;
  dict["stream"] = segment.stream;
  dict["segment_type"] = segment.is_large ? "large" : "small";
  dict["segment_pool_id"] = segment.owner_private_pool_id;
  dict["frames"] = py::list();
  dict["blocks"] = std::move(blocks);
  return dict;
}

py::dict asDict(const allocator::TraceEntry& entry) {
  py::dict dict;
  dict["action"] = nameOf(entry.action);
  const bool is_oom = entry.action == allocator::TraceEntry::OOM;
  dict[is_oom ? "device_free" : "addr"] = entry.addr;
  dict["size"] = entry.size;
  dict["stream"] = entry.stream;
  dict["segment_pool_id"] = entry.pool;
  dict["time_us"] = entry.time_us;
  dict["frames"] = framesOf(entry.context);
  return dict;
}

/// What PyTorch's memory visualiser reads. With the id of a private pool, only
/// its segments.
py::dict memorySnapshot(
    const c10::optional<c10::xpu::MempoolId_t>& mempool_id) {
  useXPU();
  releaseFrames();
  const auto pool = mempool_id.value_or(c10::xpu::MempoolId_t());
  py::list segments;
  for (const auto& segment :
       withoutGil([&] { return allocator::snapshot(pool); })) {
    segments.append(asDict(segment));
  }
  auto traces = withoutGil([] { return allocator::traces(); });
  traces.resize(static_cast<size_t>(c10::xpu::device_count()));
  py::list device_traces;
  for (const auto& trace : traces) {
    py::list entries;
    for (const auto& entry : trace) {
      entries.append(asDict(entry));
    }
    device_traces.append(std::move(entries));
  }
  py::dict dict;
  dict["segments"] = std::move(segments);
  dict["device_traces"] = std::move(device_traces);
  return dict;
}

/// Observers are never detached, so that their references are never given up.
void attachOutOfMemoryObserver(py::function observer) {
  PyObject* callable = observer.release().ptr();
  const auto call =
      [callable](int device, size_t requested, size_t total, size_t free) {
        py::gil_scoped_acquire gil;
        PyObject* result = PyObject_CallFunction(
            callable, "innn", device, requested, total, free);
        if (!result) {
          python_error error;
          error.persist();
          throw error;
        }
        Py_DECREF(result);
      };
  withoutGil([&] { allocator::attachOutOfMemoryObserver(call); });
}

} // namespace

void bindMemoryHistory(py::module& module) {
  const auto def = [&module](const char* name, auto function) {
    module.def(name, torch::wrap_pybind_function(function));
  };
  module.def(
      "_xpu_recordMemoryHistory",
      torch::wrap_pybind_function(&recordMemoryHistory),
      py::arg("enabled"),
      py::arg("context"),
      py::arg("stacks"),
      py::arg("max_entries"),
      py::arg("clear_history") = true,
      py::arg("skip_actions") = py::list());
  module.def(
      "_xpu_memorySnapshot",
      torch::wrap_pybind_function(&memorySnapshot),
      py::arg("mempool_id") = py::none());
  def("_xpu_attach_out_of_memory_observer", &attachOutOfMemoryObserver);
}

} // namespace xpu
} // namespace torch
