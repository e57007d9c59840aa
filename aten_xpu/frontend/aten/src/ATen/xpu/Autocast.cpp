#include <ATen/autocast_mode.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/irange.h>
#include <torch/library.h>

#include <string>

// Note [Autocast on XPU]
// ~~~~~~~~~~~~~~~~~~~~~~
// Inside torch.autocast("xpu") the dispatch key AutocastXPU is not excluded,
// and an operator on an XPU tensor comes here first. It is cast as on CUDA:
//
//   lowerPrecision   what gains by it is computed in the type of autocast
//   singlePrecision  what loses too much by it is computed in float
//   floatResult      reductions that take a dtype get float, unless the caller
//                    has given one; they widen as they read, so that nothing
//                    is copied
//   widest           what mixes its arguments gets them in one type
//   refused          what cannot be made safe raises
//
// All else falls through. A policy works on boxed arguments, by what they are
// and not by the operator's signature: so a list of names is all it takes.

namespace at {
namespace autocast {
namespace {

using c10::FunctionSchema;
using torch::jit::Stack;

/// Changes the arguments of an operator before it runs.
using Policy = void (*)(const FunctionSchema& schema, IValue* arguments);

IValue castOne(const IValue& argument, ScalarType to) {
  if (argument.isTensor()) {
    return cached_cast(to, argument.toTensor(), kXPU);
  }
  if (argument.isTensorList()) {
    return cached_cast(to, TensorList(argument.toTensorVector()), kXPU);
  }
  return argument;
}

void castAll(const FunctionSchema& schema, IValue* arguments, ScalarType to) {
  for (const auto n : c10::irange(schema.arguments().size())) {
    arguments[n] = castOne(arguments[n], to);
  }
}

void lowerPrecision(const FunctionSchema& schema, IValue* arguments) {
  castAll(schema, arguments, get_autocast_xpu_dtype());
}

void singlePrecision(const FunctionSchema& schema, IValue* arguments) {
  castAll(schema, arguments, kFloat);
}

void floatResult(const FunctionSchema& schema, IValue* arguments) {
  const auto dtype = schema.argumentIndexWithName("dtype");
  TORCH_INTERNAL_ASSERT(dtype, schema, " has no dtype");
  if (arguments[*dtype].isNone() &&
      is_eligible(arguments[0].toTensor(), kXPU)) {
    arguments[*dtype] = kFloat;
  }
}

void widest(const FunctionSchema& schema, IValue* arguments) {
  ScalarType found = get_autocast_xpu_dtype();
  for (const auto n : c10::irange(schema.arguments().size())) {
    if (arguments[n].isTensor()) {
      found = prioritize(found, arguments[n].toTensor(), kXPU);
    }
  }
  castAll(schema, arguments, found);
}

void refused(const FunctionSchema& schema, IValue* /*arguments*/) {
  TORCH_CHECK(
      false,
      schema.name(),
      " is unsafe to autocast: what comes out of a sigmoid in a lower "
      "precision may be 0 or 1, of which the logarithm is taken. Use "
      "binary_cross_entropy_with_logits (torch.nn.BCEWithLogitsLoss), which has "
      "the sigmoid in it, or call it inside torch.autocast(\"xpu\", "
      "enabled=False) with float arguments");
}

template <Policy policy>
void run(const c10::OperatorHandle& op, Stack* stack) {
  c10::impl::ExcludeDispatchKeyGuard no_autocast(DispatchKey::AutocastXPU);
  const auto& schema = op.schema();
  policy(schema, stack->data() + stack->size() - schema.arguments().size());
  op.callBoxed(stack);
}

template <Policy policy>
void runAll(torch::Library& library, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    library.impl(
        name, torch::CppFunction::makeFromBoxedFunction<&run<policy>>());
  }
}

TORCH_LIBRARY_IMPL(_, AutocastXPU, m) {
  m.fallback(torch::CppFunction::makeFallthrough());
}

TORCH_LIBRARY_IMPL(aten, AutocastXPU, m) {
  runAll<&lowerPrecision>(
      m,
      {// products of matrices
       "addbmm",
       "addmm",
       "addmv",
       "addr",
       "baddbmm",
       "bmm",
       "chain_matmul",
       "einsum",
       "linalg_multi_dot",
       "linear",
       "matmul",
       "mm",
       "mv",
       // convolutions
       "_convolution",
       "_convolution.deprecated",
       "conv1d",
       "conv2d",
       "conv3d",
       "conv_tbc",
       "conv_transpose1d",
       "conv_transpose2d.input",
       "conv_transpose3d.input",
       "convolution",
       // cells of recurrent networks
       "_thnn_fused_gru_cell",
       "_thnn_fused_lstm_cell",
       "gru_cell",
       "lstm_cell",
       "rnn_relu_cell",
       "rnn_tanh_cell",
       // of which the weight has the type of a product
       "prelu"});
  runAll<&singlePrecision>(
      m,
      {// functions of single values
       "acos",
       "asin",
       "cosh",
       "erfinv",
       "exp",
       "expm1",
       "log",
       "log10",
       "log1p",
       "log2",
       "pow.Scalar",
       "pow.Tensor_Scalar",
       "pow.Tensor_Tensor",
       "reciprocal",
       "rsqrt",
       "sinh",
       "softplus",
       "tan",
       // norms and distances
       "cdist",
       "cosine_similarity",
       "dist",
       "frobenius_norm",
       "frobenius_norm.dim",
       "group_norm",
       "layer_norm",
       "logsumexp",
       "native_layer_norm",
       "norm.Scalar",
       "norm.ScalarOpt_dim",
       "norm.names_ScalarOpt_dim",
       "nuclear_norm",
       "nuclear_norm.dim",
       "pdist",
       "renorm",
       // losses
       "binary_cross_entropy_with_logits",
       "cosine_embedding_loss",
       "hinge_embedding_loss",
       "huber_loss",
       "kl_div",
       "l1_loss",
       "margin_ranking_loss",
       "mse_loss",
       "multi_margin_loss",
       "multilabel_margin_loss",
       "nll_loss",
       "nll_loss2d",
       "poisson_nll_loss",
       "smooth_l1_loss",
       "soft_margin_loss",
       "triplet_margin_loss"});
  runAll<&floatResult>(
      m,
      {"cumprod",
       "cumprod.dimname",
       "cumsum",
       "cumsum.dimname",
       "log_softmax.Dimname",
       "log_softmax.int",
       "prod",
       "prod.dim_Dimname",
       "prod.dim_int",
       "softmax.Dimname",
       "softmax.int",
       "sum",
       "sum.dim_DimnameList",
       "sum.dim_IntList"});
  runAll<&widest>(
      m,
      {"addcdiv",
       "addcmul",
       "atan2",
       "bilinear",
       "cross",
       "dot",
       "grid_sampler",
       "index_put",
       "scatter_add",
       "tensordot"});
  runAll<&refused>(m, {"binary_cross_entropy"});
}

} // namespace
} // namespace autocast
} // namespace at
