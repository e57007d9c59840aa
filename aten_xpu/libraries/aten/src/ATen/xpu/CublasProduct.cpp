#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <ATen/xpu/detail/CublasLt.h>
#include <ATen/xpu/detail/CudaLaunch.h>
#include <ATen/xpu/detail/Kernel.h>
#include <ATen/xpu/detail/KernelOps.h>
#include <ATen/xpu/detail/KernelTypes.h>
#include <ATen/xpu/detail/Plans.h>
#include <c10/util/Exception.h>
#include <c10/util/hash.h>

#include <array>
#include <memory>
#include <optional>
#include <utility>

namespace at::xpu::detail {

namespace {

// Numbers of cublasLt.h.
enum DataType {
  kReal32 = 0,
  kReal64 = 1,
  kReal16 = 2,
  kInteger8 = 3,
  kInteger32 = 10,
  kRealBrain16 = 14,
  kReal8E4M3 = 28,
  kReal8E5M2 = 29,
};
enum ComputeType {
  kCompute32 = 68,
  kCompute64 = 70,
  kComputeInteger32 = 72,
  kComputeTf32 = 77,
};
enum DescAttribute {
  kTransposeA = 3,
  kTransposeB = 4,
  kEpilogue = 7,
  kBiasPointer = 8,
  kScaleAPointer = 17,
  kScaleBPointer = 18,
  kFastSums = 25,
  kScaleAMode = 31,
  kScaleBMode = 32
};
enum LayoutAttribute { kBatchCount = 5, kBatchStride = 6 };
enum PreferenceAttribute {
  kMostWorkspace = 1,
  kReductions = 3, // allowed ways to add up parts of the inner size
  kAlignmentA = 5, // and those of B, C and D
};
enum Epilogue : uint32_t { kRelu = 2, kBias = 4, kGelu = 32 };
constexpr size_t kScaleModesVersion = 120900;
constexpr int kNotSupported = 15; // a status
constexpr uint32_t kReduceInPlace = 1;
constexpr uint32_t kReduceInComputeType = 2;

constexpr uint64_t kWorkspace = 32 << 20; // as PyTorch has on Hopper

std::optional<DataType> dataTypeOf(ScalarType type) {
  switch (type) {
    case kDouble:
      return kReal64;
    case kFloat:
      return kReal32;
    case kHalf:
      return kReal16;
    case kBFloat16:
      return kRealBrain16;
    case kChar:
      return kInteger8;
    case kInt:
      return kInteger32;
#ifdef XPU_LATER_OPERATORS // than PyTorch 1.13, as those types are
    case kFloat8_e4m3fn:
      return kReal8E4M3;
    case kFloat8_e5m2:
      return kReal8E5M2;
#endif
    default:
      return std::nullopt;
  }
}

struct Types {
  ComputeType compute = kCompute32;
  DataType scale = kReal32;
};

std::optional<Types> typesOf(const Product& product) {
  const auto left = dataTypeOf(product.left.tensor.scalar_type());
  const auto right = dataTypeOf(product.right.tensor.scalar_type());
  const auto result = dataTypeOf(product.out.tensor.scalar_type());
  if (!left || !right || !result || *left == kInteger32 ||
      (*left == kInteger8) != (*result == kInteger32)) {
    return std::nullopt;
  }
  Types types;
  if (*left == kReal64) {
    types.compute = kCompute64;
    types.scale = kReal64;
  } else if (*left == kInteger8) {
    types.compute = kComputeInteger32;
    types.scale = kInteger32;
  } else if (*left == kReal32 && productsAllowTf32()) {
    types.compute = kComputeTf32;
  }
  return types;
}

/// Whether parts of sums may be added up in half or bfloat16.
bool mayReduceIn(ScalarType type) {
  const auto allowed = [](auto option) {
    if constexpr (std::is_same_v<decltype(option), bool>) {
      return option;
    } else {
      return option == decltype(option)::AllowReducedPrecisionWithSplitK;
    }
  };
  const auto& context = at::globalContext();
#ifdef XPU_LATER_OPERATORS // PyTorch 1.13 has no such switch
  if (type == kBFloat16) {
    return allowed(context.allowBF16ReductionCuBLAS());
  }
#endif
  return type != kHalf || allowed(context.allowFP16ReductionCuBLAS());
}

/// A matrix as the library sees it: in columns, which are `leading` elements
/// apart, or the transpose of such a one.
struct Columns {
  void* data = nullptr;
  int64_t rows = 0; // in memory
  int64_t cols = 0;
  int64_t leading = 0;
  int64_t batch_stride = 0;
  bool transposed = false;
  DataType type = kReal32;
  const void* scale = nullptr; // of float8, numbers of float
  ScaleOf scale_is = ScaleOf::Matrix;
};

/// Of the matrices, or their transposes. Nothing if neither is so in memory.
std::optional<Columns> columnsOf(const Matrices& matrices, bool transpose) {
  const auto as_they_are = [&](const Matrices& m, bool transposed) {
    const bool are = (m.row_stride == 1 || m.rows == 1) &&
        (m.col_stride >= m.rows || m.cols == 1);
    return are ? std::make_optional(
                     Columns{
                         m.data(),
                         m.rows,
                         m.cols,
                         m.cols == 1 ? m.rows : m.col_stride,
                         m.batch == 1 ? 0 : m.batch_stride,
                         transposed,
                         *dataTypeOf(m.tensor.scalar_type())})
               : std::nullopt;
  };
  // A row is a column's transpose too: its numbers are side by side then.
  const bool is_row = matrices.rows == 1 && matrices.cols > 1;
  const auto turned = [&](bool turn) {
    return turn ? as_they_are(matrices.transposed(), !transpose)
                : as_they_are(matrices, transpose);
  };
  const auto columns = turned(is_row);
  return columns ? columns : turned(!is_row);
}

uint32_t alignmentOf(const void* data) {
  constexpr uintptr_t kMost = 256;
  const auto bits = reinterpret_cast<uintptr_t>(data) | kMost;
  return static_cast<uint32_t>(bits & ~(bits - 1));
}

/// What a plan depends on.
using PlanKey = std::array<int64_t, 32>;

struct PlanKeyHash {
  size_t operator()(const PlanKey& key) const {
    size_t hash = 0;
    for (const auto number : key) {
      hash = c10::hash_combine(hash, static_cast<size_t>(number));
    }
    return hash;
  }
};

/// D = alpha · A · B + beta · C, all in columns.
struct Call {
  Columns a, b, c, d;
  int64_t batches = 1;
  const void* bias = nullptr; // of each row
  uint32_t activation = 0; // an Epilogue
  bool fast_sums = false; // of float8
  Types types{};
  bool reduces = true; // in half or bfloat16
  uint64_t most_workspace = kWorkspace;

  PlanKey key(DeviceIndex device) const {
    PlanKey key{
        device,
        batches,
        bias ? alignmentOf(bias) : 0,
        types.compute,
        fast_sums,
        reduces,
        static_cast<int64_t>(most_workspace),
        activation};
    size_t at = 8;
    for (const auto* matrix : {&a, &b, &c, &d}) {
      key.at(at++) = matrix->rows * (matrix->transposed ? -1 : 1);
      key.at(at++) = matrix->cols;
      key.at(at++) = matrix->leading;
      key.at(at++) = matrix->batch_stride;
      key.at(at++) = alignmentOf(matrix->data);
      key.at(at++) = static_cast<int64_t>(matrix->type) << 32 |
          static_cast<int64_t>(matrix->scale_is);
    }
    return key;
  }
};

void check(int status, const char* function) {
  TORCH_CHECK(status == 0, function, " returned ", status);
}

template <typename... Args>
VendorObject make(
    int (*create)(void**, Args...),
    int (*destroy)(void*),
    const char* function,
    std::decay_t<Args>... args) {
  void* made = nullptr;
  check(create(&made, args...), function);
  return {made, destroy};
}

template <typename T>
void set(
    int (*setter)(void*, int, const void*, size_t),
    const VendorObject& object,
    int attribute,
    T value) {
  const auto* const place = static_cast<const void*>(&value);
  check(setter(object.get(), attribute, place, sizeof(T)), "cuBLASLt's setter");
}

VendorObject makeLayout(const Columns& matrix, int64_t batches) {
  const auto& lt = cublasLt();
  auto layout = make(
      lt.create_layout,
      lt.destroy_layout,
      "cublasLtMatrixLayoutCreate",
      matrix.type,
      matrix.rows,
      matrix.cols,
      matrix.leading);
  if (batches > 1) {
    set(lt.set_layout, layout, kBatchCount, static_cast<int32_t>(batches));
    set(lt.set_layout, layout, kBatchStride, matrix.batch_stride);
  }
  return layout;
}

/// How a product of some shape is computed.
struct Plan {
  explicit Plan(const Call& call)
      : desc(make(
            cublasLt().create_desc,
            cublasLt().destroy_desc,
            "cublasLtMatmulDescCreate",
            call.types.compute,
            call.types.scale)),
        a(makeLayout(call.a, call.batches)),
        b(makeLayout(call.b, call.batches)),
        c(makeLayout(call.c, call.batches)),
        d(makeLayout(call.d, call.batches)) {
    const auto& lt = cublasLt();
    set(lt.set_desc, desc, kTransposeA, int32_t(call.a.transposed));
    set(lt.set_desc, desc, kTransposeB, int32_t(call.b.transposed));
    if (const auto epilogue = call.activation | (call.bias ? kBias : 0U)) {
      set(lt.set_desc, desc, kEpilogue, epilogue);
    }
    if (call.a.scale_is != ScaleOf::Matrix) {
      set(lt.set_desc, desc, kScaleAMode, call.a.scale_is);
      set(lt.set_desc, desc, kScaleBMode, call.b.scale_is);
    }
    if (call.fast_sums) {
      set(lt.set_desc, desc, kFastSums, int8_t(1));
    }
    point(call);
  }

  /// At what differs between calls of the plan.
  void point(const Call& call) const {
    const auto& lt = cublasLt();
    if (call.bias) {
      set(lt.set_desc, desc, kBiasPointer, call.bias);
    }
    if (call.a.scale) {
      set(lt.set_desc, desc, kScaleAPointer, call.a.scale);
      set(lt.set_desc, desc, kScaleBPointer, call.b.scale);
    }
  }

  /// False if the library has no algorithm.
  bool find(void* handle, const Call& call) {
    const auto& lt = cublasLt();
    const auto preference = make(
        lt.create_preference,
        lt.destroy_preference,
        "cublasLtMatmulPreferenceCreate");
    set(lt.set_preference, preference, kMostWorkspace, call.most_workspace);
    if (!call.reduces) {
      set(lt.set_preference,
          preference,
          kReductions,
          kReduceInPlace | kReduceInComputeType);
    }
    int attribute = kAlignmentA;
    for (const auto* matrix : {&call.a, &call.b, &call.c, &call.d}) {
      set(lt.set_preference,
          preference,
          attribute++,
          alignmentOf(matrix->data));
    }
    int count = 0;
    const int status = lt.heuristic(
        handle,
        desc.get(),
        a.get(),
        b.get(),
        c.get(),
        d.get(),
        preference.get(),
        1,
        &found,
        &count);
    return status == 0 && count > 0 && found.status == 0;
  }

  VendorObject desc, a, b, c, d;
  CublasLtHeuristic found{};
};

/// Null if the library has none. Plans are kept for each thread, since the
/// addresses of a bias and scales are set in them.
std::shared_ptr<Plan> planOf(
    void* handle,
    const Call& call,
    DeviceIndex device) {
  static thread_local Plans<PlanKey, std::shared_ptr<Plan>, PlanKeyHash> plans;
  const auto key = call.key(device);
  if (const auto* known = plans.find(key)) {
    return *known;
  }
  enterCuda(device); // the library asks the current device what it is
  auto plan = std::make_shared<Plan>(call);
  if (!plan->find(handle, call)) {
    plan = nullptr;
  }
  return plans.put(key, std::move(plan));
}

/// The plan and its workspace, or with less if memory is short.
std::shared_ptr<Plan> planWithWorkspace(
    void* handle,
    Call& call,
    const Tensor& out,
    Tensor& workspace) {
  auto plan = planOf(handle, call, out.device().index());
  if (plan && plan->found.workspace > 0) {
    try {
      workspace = at::empty(
          {static_cast<int64_t>(plan->found.workspace)},
          out.options().dtype(kByte));
    } catch (const c10::OutOfMemoryError&) {
      call.most_workspace = 0;
      plan = planOf(handle, call, out.device().index());
    }
  }
  return plan;
}

/// With the numbers of a row side by side.
Matrices rowsTogether(const Matrices& matrices) {
  const bool are = matrices.col_stride == 1 &&
      (matrices.row_stride >= matrices.cols || matrices.rows == 1);
  return are ? matrices : matrices.copied();
}

/// The matrices in columns; they become a copy if they are not.
Columns readColumns(Matrices& matrices, bool transpose) {
  if (const auto columns = columnsOf(matrices, transpose)) {
    return *columns;
  }
  matrices = matrices.copied();
  const auto columns = columnsOf(matrices, transpose);
  TORCH_INTERNAL_ASSERT(columns);
  return *columns;
}

} // namespace

bool multiplyByCublas(const Product& product, const Scales& scales) {
  const auto device = product.out.tensor.device().index();
  const auto types = typesOf(product);
  if (!types || product.left.cols == 0) {
    return false;
  }
  void* const handle = cublasLtHandle(device);
  if (!handle ||
      (scales.left_is != ScaleOf::Matrix &&
       cublasLt().version() < kScaleModesVersion)) {
    return false;
  }
  auto out = product.out;
  auto columns = columnsOf(out, /*transpose=*/false);
  if (!columns) {
    out = out.withoutGaps(
        at::empty({out.batch, out.rows, out.cols}, out.tensor.options()));
    columns = columnsOf(out, /*transpose=*/false);
  }
  TORCH_INTERNAL_ASSERT(columns);
  // The transpose of the result is the product of the transposes, the other way
  // round.
  const bool by_rows = columns->transposed;
  columns->transposed = false;
  auto left = product.left;
  auto right = product.right;
  if (scales.left.defined()) { // float8 wants what is multiplied side by side
    left = rowsTogether(left);
    right = rowsTogether(right.transposed()).transposed();
  }
  const auto read = [&](Matrices& factor, const Tensor& scale, ScaleOf is) {
    auto result = readColumns(factor, by_rows);
    result.scale = scale.defined() ? scale.data_ptr() : nullptr;
    result.scale_is = is;
    return result;
  };
  Call call;
  call.a = read(left, scales.left, scales.left_is);
  call.b = read(right, scales.right, scales.right_is);
  if (by_rows) {
    std::swap(call.a, call.b);
  }
  call.fast_sums = scales.fast_sums;
  call.activation = product.activation == Activation::Relu ? kRelu
      : product.activation == Activation::Gelu             ? kGelu
                                                           : 0U;
  call.d = *columns;
  call.batches = out.batch;
  call.types = *types;
  call.reduces = mayReduceIn(out.tensor.scalar_type());
  call.c = call.d;
  const auto& self = product.self;
  double beta = product.beta.to<double>();
  if (beta != 0) {
    const bool is_bias = by_rows && beta == 1 && out.batch == 1 &&
        self.row_stride == 0 && self.col_stride == 1 && call.d.type != kReal64;
    const auto given = columnsOf(self, /*transpose=*/false);
    if (is_bias) {
      call.bias = self.data();
      beta = 0;
    } else if (given && given->transposed == by_rows) {
      call.c = *given;
      call.c.transposed = false;
    } else if (!self.tensor.is_same(out.tensor)) {
      out.view().copy_(self.view());
    }
  }
  // An alpha that float has not got becomes infinite.
  const auto type = types->scale == kReal64 ? f64
      : types->scale == kInteger32          ? i32
                                            : f32;
  const auto scale_of_c = kernelNumber(beta, type, /*checked=*/false);
  const auto scale = kernelNumber(product.alpha, type, /*checked=*/false);
  const auto stream = c10::xpu::getCurrentXPUStream(device);
  Tensor workspace;
  const auto plan = planWithWorkspace(handle, call, out.tensor, workspace);
  if (!plan) {
    return false;
  }
  void* const space = workspace.defined() ? workspace.data_ptr() : nullptr;
  int status = 0;
  launchOnCuda(stream, product.op, [&](void* cuda_stream) {
    plan->point(call);
    status = cublasLt().matmul(
        handle,
        plan->desc.get(),
        &scale.bits,
        call.a.data,
        plan->a.get(),
        call.b.data,
        plan->b.get(),
        &scale_of_c.bits,
        call.c.data,
        plan->c.get(),
        call.d.data,
        plan->d.get(),
        &plan->found.algorithm,
        space,
        plan->found.workspace,
        cuda_stream);
  });
  if (status == kNotSupported) { // although it has an algorithm
    return false;
  }
  check(status, "cublasLtMatmul");
  if (!out.tensor.is_same(product.out.tensor)) {
    product.out.view().copy_(out.view());
  }
  return true;
}

} // namespace at::xpu::detail
