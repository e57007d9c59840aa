#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <ATen/xpu/HostCall.h>
#include <c10/util/irange.h>
#include <c10/xpu/XPUGuard.h>
#include <c10/xpu/XPUStream.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/xpu/Bindings.h>
#include <torch/library.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

// Note [Collectives on XPU]
// ~~~~~~~~~~~~~~~~~~~~~~~~~
// The backend of torch.distributed for XPU hands CPU tensors to gloo. Where the
// memory of the device is host memory they are aliases, and nothing is copied.
// Elsewhere, and for tensors with gaps, they are copies in pinned memory.
//
//   before  The call waits for the work on the current stream: gloo reads and
//           writes on threads of its own.
//   after   The results are copied back on a stream of the pool, and that
//           stream is waited for, before the work is complete. So whatever is
//           submitted after that sees them, on any stream.
//
// Most collectives are copied back by gloo's thread, whether somebody waits or
// not. What gloo itself ends only when it is waited for, such as a receive or
// some kinds of reduce_scatter, has no future there: the first wait does it.
//
// gloo's threads take the GIL, to drop a tensor that Python has dropped before
// or to call a function. A thread that waits for the GIL while Python ends is
// ended there, and takes the process with it. So endGloo joins them before.

namespace py = pybind11;

namespace torch::xpu {
namespace {

using at::Tensor;
using c10::ivalue::Future;
using c10d::Backend;
using c10d::OpType;
using c10d::ProcessGroup;
using Tensors = std::vector<Tensor>;
using TensorLists = std::vector<Tensors>;
using WorkPtr = c10::intrusive_ptr<c10d::Work>;

/// The CPU tensors for the XPU tensors of one call. Others stay what they are.
class Staging {
 public:
  template <typename T>
  T read(const T& tensors) {
    return stage(tensors, /*read=*/true, /*written=*/false);
  }
  template <typename T>
  T write(const T& tensors) {
    return stage(tensors, /*read=*/false, /*written=*/true);
  }
  template <typename T>
  T update(const T& tensors) {
    return stage(tensors, /*read=*/true, /*written=*/true);
  }

  /// Says that work on the current stream of this device has to be done before.
  void use(c10::DeviceIndex device) {
    at::xpu::checkNotRecording(
        c10::xpu::getCurrentXPUStream(device), "A collective of xpu_gloo");
    devices_.insert(device);
  }

  /// Waits for the current streams. The CPU tensors can be used from here on.
  void wait() const {
    for (const auto device : devices_) {
      c10::xpu::getCurrentXPUStream(device).synchronize();
    }
  }

  /// Has the XPU tensors say what the CPU tensors say, and waits for that.
  void copyBack() const {
    const at::NoGradGuard no_grad;
    std::vector<c10::xpu::XPUStream> streams;
    for (const auto& [device, host] : copies_) {
      const c10::xpu::XPUStreamGuard guard(
          c10::xpu::getStreamFromPool(
              /*isHighPriority=*/true, device.device().index()));
      device.copy_(host, /*non_blocking=*/true);
      streams.push_back(guard.current_stream());
    }
    for (const auto& stream : streams) {
      stream.synchronize();
    }
  }

  std::vector<c10::Device> devices() const {
    std::vector<c10::Device> devices;
    for (const auto device : devices_) {
      devices.emplace_back(at::kXPU, device);
    }
    return devices;
  }

 private:
  template <typename T>
  std::vector<T> stage(const std::vector<T>& tensors, bool read, bool written) {
    std::vector<T> result;
    result.reserve(tensors.size());
    for (const auto& tensor : tensors) {
      result.push_back(stage(tensor, read, written));
    }
    return result;
  }

  Tensor stage(const Tensor& tensor, bool read, bool written) {
    if (!tensor.defined() || !tensor.is_xpu()) {
      return tensor;
    }
    const at::NoGradGuard no_grad;
    use(tensor.device().index());
    const auto options = tensor.options().device(at::kCPU).requires_grad(false);
    const bool strided = tensor.layout() == at::kStrided;
    // gloo takes what it gets for contiguous.
    if (strided && tensor.is_non_overlapping_and_dense() &&
        at::xpu::isHostMemory(tensor.device().index())) {
      return at::empty({0}, options)
          .set_(
              at::xpu::hostAlias(tensor.storage()),
              tensor.storage_offset(),
              tensor.sizes(),
              tensor.strides());
    }
    Tensor host;
    if (!strided) {
      host = tensor.to(at::kCPU);
    } else {
      host = at::empty_like(tensor, options.pinned_memory(true));
      if (read) {
        host.copy_(tensor, /*non_blocking=*/true);
      }
    }
    if (written) {
      // Writing what has a version counter of its own does not count as a
      // change of the argument, as with CPU tensors.
      copies_.emplace_back(strided ? tensor.variable_data() : tensor, host);
    }
    return host;
  }

  std::set<c10::DeviceIndex> devices_;
  std::vector<std::pair<Tensor, Tensor>> copies_; // XPU and CPU
};

/// A collective, which gloo completes on one of its threads.
class CollectiveWork final : public c10d::Work {
 public:
  CollectiveWork(
      OpType type,
      TensorLists outputs,
      std::vector<c10::Device> devices)
      : Work(/*rank=*/-1, type),
        outputs_(std::move(outputs)),
        future_(
            c10::make_intrusive<Future>(typeOf(outputs_), std::move(devices))) {
  }

  /// Completes it after gloo.
  void follow(Future& gloo, std::shared_ptr<Staging> staging) {
    // This keeps the work and the tensors alive until gloo is done with them.
    auto self = c10::intrusive_ptr<CollectiveWork>::reclaim_copy(this);
    gloo.addCallback([self, staging = std::move(staging)](Future& future) {
      self->complete(
          future.hasError() ? future.exception_ptr() : nullptr, *staging);
    });
  }

  Tensors result() override {
    TORCH_CHECK(isCompleted(), "Call wait() before result()");
    TORCH_CHECK(
        outputs_.size() <= 1,
        "result() cannot return lists of lists: use get_future().value()");
    return outputs_.empty() ? Tensors() : outputs_[0];
  }

  c10::intrusive_ptr<Future> getFuture() override {
    return future_;
  }

 private:
  static c10::TypePtr typeOf(const TensorLists& outputs) {
    c10::TypePtr list = c10::ListType::create(c10::TensorType::get());
    return outputs.size() > 1 ? c10::ListType::create(list) : list;
  }

  void complete(std::exception_ptr error, const Staging& staging) {
    if (!error) {
      try {
        staging.copyBack();
      } catch (...) {
        error = std::current_exception();
      }
    }
    if (error) {
      future_->setError(error);
    } else if (outputs_.size() > 1) {
      future_->markCompleted(outputs_);
    } else {
      future_->markCompleted(outputs_.empty() ? Tensors() : outputs_[0]);
    }
    finish(error);
  }

  const TensorLists outputs_;
  const c10::intrusive_ptr<Future> future_;
};

/// What is done by the thread that waits. gloo's work can be waited for once.
class WaitedWork final : public c10d::Work {
 public:
  WaitedWork(OpType type, WorkPtr gloo, std::shared_ptr<Staging> staging)
      : Work(/*rank=*/-1, type),
        gloo_(std::move(gloo)),
        staging_(std::move(staging)) {}

  bool wait(std::chrono::milliseconds timeout) override {
    if (!claimed_.exchange(true)) {
      std::exception_ptr error;
      try {
        done_ = gloo_->wait(timeout);
        if (done_) {
          staging_->copyBack();
        }
      } catch (...) {
        error = std::current_exception();
      }
      finish(error);
    }
    Work::wait(timeout); // for the thread that does it, if it is another one
    return done_;
  }

  int sourceRank() const override {
    return gloo_->sourceRank();
  }

  void abort() override {
    gloo_->abort();
  }

 private:
  const WorkPtr gloo_;
  const std::shared_ptr<Staging> staging_;
  std::atomic<bool> claimed_{false};
  bool done_ = false; // written before finish(), read after Work::wait
};

/// See Note [Collectives on XPU]. What gloo cannot do raises gloo's error.
class GlooBackend final : public Backend {
 public:
  explicit GlooBackend(c10::intrusive_ptr<Backend> gloo)
      : Backend(gloo->getRank(), gloo->getSize()), gloo_(std::move(gloo)) {
    init();
    const std::lock_guard<std::mutex> lock(alive().mutex);
    alive().backends.insert(this);
  }

  ~GlooBackend() override {
    {
      const std::lock_guard<std::mutex> lock(alive().mutex);
      alive().backends.erase(this);
    }
    // It joins gloo's threads, which may want the GIL.
    if (gloo_ && Py_IsInitialized() && PyGILState_Check()) {
      const py::gil_scoped_release no_gil;
      gloo_.reset();
    }
  }

  /// Joins gloo's threads in every backend. Collectives raise from now on.
  static void endAll() {
    std::vector<c10::intrusive_ptr<Backend>> ended;
    {
      const std::lock_guard<std::mutex> lock(alive().mutex);
      for (auto* const backend : alive().backends) {
        ended.push_back(std::move(backend->gloo_));
      }
    }
  }

  const std::string getBackendName() const override {
    return "xpu_gloo";
  }
  c10::intrusive_ptr<Options> getBackendOptions() override {
    return gloo()->getBackendOptions();
  }
  void setTimeout(std::chrono::milliseconds timeout) override {
    gloo()->setTimeout(timeout);
  }
  void setSequenceNumberForGroup() override {
    gloo()->setSequenceNumberForGroup();
  }
  uint64_t getSequenceNumberForGroup() override {
    return gloo()->getSequenceNumberForGroup();
  }
  void enableCollectivesTiming() override {
    gloo()->enableCollectivesTiming();
  }
  void abort() override {
    gloo()->abort();
  }
  void shutdown() override {
    gloo()->shutdown();
  }

  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options)
      override {
    return update(OpType::BROADCAST, &Backend::broadcast, tensors, options);
  }

  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options)
      override {
    return update(OpType::ALLREDUCE, &Backend::allreduce, tensors, options);
  }

  WorkPtr allreduce_coalesced(
      Tensors& tensors,
      const c10d::AllreduceCoalescedOptions& options) override {
    return update(
        OpType::ALLREDUCE_COALESCED,
        &Backend::allreduce_coalesced,
        tensors,
        options);
  }

  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& options)
      override {
    return update(OpType::REDUCE, &Backend::reduce, tensors, options);
  }

  WorkPtr allgather(
      TensorLists& outputs,
      Tensors& inputs,
      const c10d::AllgatherOptions& options) override {
    return exchange(
        OpType::ALLGATHER, &Backend::allgather, outputs, inputs, options);
  }

  WorkPtr _allgather_base(
      Tensor& output,
      Tensor& input,
      const c10d::AllgatherOptions& options) override {
    return exchange<kFlat>(
        OpType::_ALLGATHER_BASE,
        &Backend::_allgather_base,
        output,
        input,
        options);
  }

  WorkPtr allgather_coalesced(
      TensorLists& outputs,
      Tensors& inputs,
      const c10d::AllgatherOptions& options) override {
    return exchange(
        OpType::ALLGATHER_COALESCED,
        &Backend::allgather_coalesced,
        outputs,
        inputs,
        options);
  }

  WorkPtr allgather_into_tensor_coalesced(
      Tensors& outputs,
      Tensors& inputs,
      const c10d::AllgatherOptions& options) override {
    return exchange<kFlat>(
        OpType::ALLGATHER_COALESCED,
        &Backend::allgather_into_tensor_coalesced,
        outputs,
        inputs,
        options);
  }

  WorkPtr gather(
      TensorLists& outputs,
      Tensors& inputs,
      const c10d::GatherOptions& options) override {
    return exchange(OpType::GATHER, &Backend::gather, outputs, inputs, options);
  }

  WorkPtr scatter(
      Tensors& outputs,
      TensorLists& inputs,
      const c10d::ScatterOptions& options) override {
    return exchange(
        OpType::SCATTER, &Backend::scatter, outputs, inputs, options);
  }

  WorkPtr reduce_scatter(
      Tensors& outputs,
      TensorLists& inputs,
      const c10d::ReduceScatterOptions& options) override {
    return exchange(
        OpType::REDUCE_SCATTER,
        &Backend::reduce_scatter,
        outputs,
        inputs,
        options);
  }

  WorkPtr _reduce_scatter_base(
      Tensor& output,
      Tensor& input,
      const c10d::ReduceScatterOptions& options) override {
    return exchange<kFlat>(
        OpType::_REDUCE_SCATTER_BASE,
        &Backend::_reduce_scatter_base,
        output,
        input,
        options);
  }

  WorkPtr reduce_scatter_tensor_coalesced(
      Tensors& outputs,
      Tensors& inputs,
      const c10d::ReduceScatterOptions& options) override {
    return exchange<kFlat>(
        OpType::REDUCE_SCATTER_TENSOR_COALESCED,
        &Backend::reduce_scatter_tensor_coalesced,
        outputs,
        inputs,
        options);
  }

  WorkPtr alltoall_base(
      Tensor& output,
      Tensor& input,
      std::vector<int64_t>& output_sizes,
      std::vector<int64_t>& input_sizes,
      const c10d::AllToAllOptions& options) override {
    return exchange(
        OpType::ALLTOALL_BASE,
        &Backend::alltoall_base,
        output,
        input,
        output_sizes,
        input_sizes,
        options);
  }

  WorkPtr alltoall(
      Tensors& outputs,
      Tensors& inputs,
      const c10d::AllToAllOptions& options) override {
    return exchange(
        OpType::ALLTOALL, &Backend::alltoall, outputs, inputs, options);
  }

  WorkPtr send(Tensors& tensors, int to, int tag) override {
    auto staging = std::make_shared<Staging>();
    auto host = staging->read(tensors);
    staging->wait();
    return c10::make_intrusive<WaitedWork>(
        OpType::SEND, gloo()->send(host, to, tag), staging);
  }

  WorkPtr recv(Tensors& tensors, int from, int tag) override {
    auto staging = std::make_shared<Staging>();
    auto host = staging->write(tensors);
    staging->wait();
    return c10::make_intrusive<WaitedWork>(
        OpType::RECV, gloo()->recv(host, from, tag), staging);
  }

  WorkPtr recvAnysource(Tensors& tensors, int tag) override {
    auto staging = std::make_shared<Staging>();
    auto host = staging->write(tensors);
    staging->wait();
    return c10::make_intrusive<WaitedWork>(
        OpType::RECVANYSOURCE, gloo()->recvAnysource(host, tag), staging);
  }

  WorkPtr barrier(const c10d::BarrierOptions& options) override {
    auto staging = std::make_shared<Staging>();
    for (const auto device : options.device_ids) {
      staging->use(static_cast<c10::DeviceIndex>(device));
    }
    if (options.device_ids.empty()) {
      staging->use(c10::xpu::current_device());
    }
    return start(
        OpType::BARRIER, staging, {}, [&] { return gloo()->barrier(options); });
  }

 private:
  /// Starts a collective of gloo's that changes its tensors in place.
  template <typename Method, typename Options>
  WorkPtr update(
      OpType type,
      Method method,
      const Tensors& tensors,
      const Options& options) {
    auto staging = std::make_shared<Staging>();
    auto host = staging->update(tensors);
    return start(type, staging, {tensors}, [&] {
      return ((*gloo()).*method)(host, options);
    });
  }

  /// One that reads some tensors and writes others.
  template <
      bool flat = false,
      typename Method,
      typename To,
      typename From,
      typename... Rest>
  WorkPtr exchange(
      OpType type,
      Method method,
      const To& to,
      const From& from,
      Rest&... rest) {
    auto staging = std::make_shared<Staging>();
    auto host_from = staging->read(from);
    auto host_to = staging->write(to);
    if constexpr (flat) {
      flatten(host_to, host_from);
    }
    return start(type, staging, listsOf(to), [&] {
      return ((*gloo()).*method)(host_to, host_from, rest...);
    });
  }

  // Where one tensor is the parts of another, only elements count, as in other
  // backends. gloo compares shapes.
  static constexpr bool kFlat = true;

  static void flatten(Tensor& to, Tensor& from) {
    if (to.is_contiguous() && from.is_contiguous()) {
      to = to.view(-1);
      from = from.view(-1);
    }
  }
  static void flatten(Tensors& to, Tensors& from) {
    for (const auto i : c10::irange(std::min(to.size(), from.size()))) {
      flatten(to[i], from[i]);
    }
  }

  static TensorLists listsOf(const Tensor& tensor) {
    return {{tensor}};
  }
  static TensorLists listsOf(const Tensors& tensors) {
    return {tensors};
  }
  static TensorLists listsOf(const TensorLists& lists) {
    return lists;
  }

  template <typename Call>
  static WorkPtr start(
      OpType type,
      std::shared_ptr<Staging> staging,
      TensorLists outputs,
      const Call& call) {
    staging->wait();
    const WorkPtr gloo = call();
    c10::intrusive_ptr<Future> future;
    try {
      future = gloo->getFuture();
    } catch (const c10::Error&) {
      return c10::make_intrusive<WaitedWork>(type, gloo, std::move(staging));
    }
    auto work = c10::make_intrusive<CollectiveWork>(
        type, std::move(outputs), staging->devices());
    work->follow(*future, std::move(staging));
    return work;
  }

  c10::intrusive_ptr<Backend> gloo() const {
    const std::lock_guard<std::mutex> lock(alive().mutex);
    TORCH_CHECK(
        gloo_,
        "There are no collectives while Python ends: call them earlier than "
        "in functions that were given to atexit before PyTorch was imported");
    return gloo_;
  }

  struct Alive {
    std::mutex mutex; // of gloo_ in each of them, too
    std::set<GlooBackend*> backends;
  };
  static Alive& alive() {
    static auto* const alive = new Alive(); // lives as long as the process
    return *alive;
  }

  c10::intrusive_ptr<Backend> gloo_;
};

// Note [c10d's operators]
// ~~~~~~~~~~~~~~~~~~~~~~~
// ProcessGroup's methods are operators, and PyTorch's kernels of these differ
// by device only in the backend of the group that they call. XPU takes those
// of the CPU, with a group that answers with its backend for XPU.
struct GroupForCPU final : ProcessGroup {
  explicit GroupForCPU(ProcessGroup& group)
      : ProcessGroup(group.getRank(), group.getSize()) {
    // setBackend would also change the backend.
    deviceTypeToBackend_[at::kCPU] = group.getBackend(at::kXPU);
  }
};

// A group whose backends were not named, or were for each device, has a
// default backend that it may not have. DistributedDataParallel asks for it.
void setDefaultBackend(ProcessGroup& group) {
  static std::mutex mutex;
  const std::lock_guard<std::mutex> lock(mutex);
  try {
    group.getDefaultBackend();
  } catch (const c10::Error&) {
    group.setDefaultBackend(ProcessGroup::BackendType::CUSTOM);
  }
}

void runOnXPU(
    const c10::OperatorHandle& op,
    c10::DispatchKeySet /*keys*/,
    torch::jit::Stack* stack) {
  const auto& arguments = op.schema().arguments();
  const auto position = op.schema().argumentIndexWithName("process_group");
  TORCH_INTERNAL_ASSERT(position, op.schema());
  auto& argument = (*stack)[stack->size() - arguments.size() + *position];
  const auto group = argument.toCustomClass<ProcessGroup>();
  setDefaultBackend(*group);
  argument = c10::intrusive_ptr<ProcessGroup>(
      c10::make_intrusive<GroupForCPU>(*group));
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
}

TORCH_LIBRARY_IMPL(c10d, XPU, library) {
  for (const char* const name :
       {"_allgather_base_",
        "_reduce_scatter_base_",
        "allgather_",
        "allgather_coalesced_",
        "allgather_into_tensor_coalesced_",
        "allreduce_",
        "allreduce_coalesced_",
        "alltoall_",
        "alltoall_base_",
        "barrier",
        "broadcast_",
        "gather_",
        "recv_",
        "recv_any_source_",
        "reduce_",
        "reduce_scatter_",
        "reduce_scatter_tensor_coalesced_",
        "scatter_",
        "send"}) {
    library.impl(name, torch::CppFunction::makeFromBoxedFunction<&runOnXPU>());
  }
}

TORCH_LIBRARY_IMPL(c10d, SparseXPU, library) {
  library.impl(
      "allreduce_", torch::CppFunction::makeFromBoxedFunction<&runOnXPU>());
}

} // namespace

void bindGloo(py::module& module) {
  module.def(
      "_xpu_glooBackend",
      [](c10::intrusive_ptr<Backend> gloo) -> c10::intrusive_ptr<Backend> {
        useXPU();
        return c10::make_intrusive<GlooBackend>(std::move(gloo));
      });
  module.def(
      "_xpu_endGloo",
      &GlooBackend::endAll,
      py::call_guard<py::gil_scoped_release>());
}

} // namespace torch::xpu
