#include <ATen/ATen.h>
#include <ATen/ceil_div.h>
#include <ATen/xpu/detail/Attention.h>
#include <ATen/xpu/detail/KernelSources.h>
#include <ATen/xpu/detail/Product.h>
#include <ATen/xpu/detail/Random.h>
#include <ATen/xpu/detail/Reduce.h>
#include <ATen/xpu/detail/StructuredCall.h>

#include <algorithm>
#include <vector>

namespace at::xpu::detail {

namespace {

std::string attentionSourceOf(int type) {
#define XPU_CODE(...) #__VA_ARGS__
  static constexpr const char* kPhilox =
#include <ATen/xpu/kernels/Philox.def>
      ;
#undef XPU_CODE
  static constexpr const char* kSource =
#include <ATen/xpu/kernels/Attention.sycl>
      ;
  return typedSource(type) + reduceSource() +
      replaced(kSource, "XPU_PHILOX", kPhilox);
}

const KernelFamily kAttentions("attention", &attentionSourceOf, FLOATING);
const NamedKernel kAttention(kAttentions, "attention");
const NamedKernel kAttentionGrad(kAttentions, "attention_grad");
const NamedKernel kAttentionNone(kAttentions, "attention_none");
const NamedKernel kAttentionFew(kAttentions, "attention_few");
const NamedKernel kAttentionPhilox(kAttentions, "attention_philox");

constexpr int64_t kRowsOfAttention = 4; // in a group
constexpr int64_t kMostProducts = 1 << 26; // that are in memory at a time
constexpr int64_t kBlocks = 4; // of queries, of which the first need few keys
constexpr int64_t kLeastOfBlock = 128;
constexpr int64_t kMostNumbersOfFew = 256; // as in the source
constexpr uint32_t kItemsOfFew = 256;

// Note [Attention]
// ~~~~~~~~~~~~~~~~
// Products of queries and keys are in memory for some heads and queries at a
// time, in the type that is computed with. The forward keeps the logarithm of
// the sum of exp for each query; with it the backward computes the softmax
// again, and draws the same numbers for dropout. Both go over parts in a fixed
// order.

/// Queries of some heads.
struct AttentionPart {
  int64_t first; // head of all images
  int64_t heads;
  int64_t from; // query
  int64_t queries;
  int64_t keys; // that they need
};

/// Some heads' rows, as matrices; `tensor` is [heads, rows, numbers].
Matrices rowsOf(
    const Tensor& tensor,
    const AttentionPart& part,
    int64_t from,
    int64_t count) {
  return Matrices::of(
      tensor.narrow(0, part.first, part.heads).narrow(1, from, count));
}

/// Numbers of a row side by side.
Tensor withPlainRows(const Tensor& tensor) {
  return tensor.stride(3) == 1 ? tensor : tensor.contiguous();
}

/// What is added to the products of all heads, in the type that is computed
/// with.
Tensor maskFor(
    const Tensor& mask,
    const Tensor& query,
    const Tensor& key,
    KernelType type) {
  return mask.defined()
      ? mask.to(computedType(type))
            .expand({query.size(0), query.size(1), query.size(2), key.size(2)})
      : mask;
}

struct Attention {
  const AttentionCall& call;
  Tensor query; // [images · heads, queries, numbers]
  Tensor key;
  Tensor value;
  Tensor mask; // of all heads, in the type that is computed with
  int64_t heads;
  KernelType type;

  Attention(const AttentionCall& call, KernelType type)
      : call(call),
        query(call.query.flatten(0, 1)),
        key(call.key.flatten(0, 1)),
        value(call.value.flatten(0, 1)),
        mask(maskFor(call.mask, call.query, call.key, type)),
        heads(call.query.size(1)),
        type(type) {}

  int64_t queries() const {
    return query.size(1);
  }
  int64_t keys() const {
    return key.size(1);
  }
  TensorOptions numbers() const {
    return query.options().dtype(computedType(type));
  }

  /// How many queries of a head are in a part, at most.
  int64_t blockSize() const {
    return std::min(
        call.causal ? std::max(kLeastOfBlock, at::ceil_div(queries(), kBlocks))
                    : queries(),
        std::max<int64_t>(kMostProducts / keys(), 1));
  }

  /// Calls `work` for each part. Of the queries of a head the last come first:
  /// they have all keys.
  template <typename Work>
  void each(const Work& work) const {
    const auto rows = blockSize();
    const auto at_once = std::max<int64_t>(kMostProducts / keys() / rows, 1);
    for (int64_t head = 0; head < query.size(0); head += at_once) {
      const auto count = std::min(at_once, query.size(0) - head);
      for (auto from = (queries() - 1) / rows * rows; from >= 0; from -= rows) {
        const auto some = std::min(rows, queries() - from);
        work(
            AttentionPart{
                head,
                count,
                from,
                some,
                call.causal ? std::min(keys(), from + some) : keys()});
      }
    }
  }

  static Tensor productsOf(const AttentionPart& part, TensorOptions options) {
    return at::empty({part.heads, part.queries, part.keys}, options);
  }

  /// out = left · right, or added to it.
  void product(
      const Matrices& out,
      const Matrices& left,
      const Matrices& right,
      bool add = false) const {
    multiply({call.op, out, left, right, out, int64_t(add)});
  }

  void launch(
      const NamedKernel& kernel,
      const AttentionPart& part,
      std::initializer_list<KernelArgument> own) const {
    std::vector<KernelArgument> arguments(own);
    arguments.emplace_back(static_cast<uint32_t>(queries()));
    arguments.emplace_back(mask.defined() ? mask.data_ptr() : nullptr);
    for (const auto d : {0, 1, 2, 3}) {
      arguments.emplace_back(mask.defined() ? mask.stride(d) : int64_t(0));
    }
    for (const auto number :
         {heads,
          part.first,
          part.from,
          part.heads,
          part.queries,
          part.keys,
          int64_t(call.causal)}) {
      arguments.emplace_back(static_cast<uint32_t>(number));
    }
    arguments.emplace_back(kernelNumber(call.scale, type));
    const auto keep = 1 - call.dropout;
    arguments.emplace_back(pointerOf(call.seed));
    arguments.emplace_back(pointerOf(call.offset));
    arguments.emplace_back(static_cast<float>(keep));
    arguments.emplace_back(kernelNumber(keep > 0 ? 1 / keep : 0, type));
    const auto device = query.device().index();
    const auto lanes = lanesOf(device);
    kernel.launch(
        call.op,
        type,
        device,
        part.heads * part.queries * lanes,
        arguments,
        kRowsOfAttention * lanes);
  }

  /// [images, heads, ...]
  Tensor byImages(const Tensor& tensor) const {
    return tensor.unflatten(0, {call.query.size(0), heads});
  }
};

} // namespace

std::optional<KernelType> attentionType(const AttentionCall& call) {
  const auto& [op, query, key, value, mask, causal, scale, dropout, seed, _] =
      call;
  const auto type = kernelTypeOf(query, FLOATING);
  const auto device = query.device().index();
  const bool plain = type && query.dim() == 4 && key.dim() == 4 &&
      value.dim() == 4 && alike(key, query) && alike(value, query) &&
      (!mask.defined() || mask.device() == query.device()) &&
      key.size(0) == query.size(0) && key.size(1) == query.size(1) &&
      key.size(3) == query.size(3) &&
      value.sizes().slice(0, 3) == key.sizes().slice(0, 3) &&
      query.numel() > 0 && key.numel() > 0 && value.numel() > 0 &&
      canMultiply(query, key) && canMultiply(query, value) &&
      key.size(2) <= kMostProducts && kAttention.find(*type, device) &&
      kAttentionGrad.find(*type, device);
  return plain ? type : std::nullopt;
}

void drawDropout(AttentionCall& call, KernelType type, int64_t count) {
  const auto options = call.query.options().dtype(kLong);
  const auto device = call.query.device().index();
  const auto state = takePhilox({}, device, count);
  call.seed = at::empty({}, options);
  call.offset = at::empty({}, options);
  kAttentionPhilox.launch(
      call.op,
      type,
      device,
      1,
      {call.seed.data_ptr(),
       call.offset.data_ptr(),
       state.seed,
       state.offset,
       state.seed_at,
       state.offset_at});
}

bool attendFew(
    const AttentionCall& call,
    KernelType type,
    const Tensor& out,
    const Tensor& logsumexp) {
  const auto& [op, query, key, value, mask, causal, scale, dropout, seed, _] =
      call;
  const auto device = query.device().index();
  const auto* const kernel = kAttentionFew.find(type, device);
  const auto groups = query.size(0) * query.size(1) * query.size(2);
  if (query.size(2) >= kFewQueries || query.size(3) > kMostNumbersOfFew ||
      value.size(3) > kMostNumbersOfFew || !kernel ||
      groupSize(*kernel) < kItemsOfFew ||
      groups > kMostElements / kItemsOfFew) {
    return false;
  }
  const auto q = withPlainRows(query);
  const auto k = withPlainRows(key);
  const auto v = withPlainRows(value);
  const auto added = maskFor(mask, query, key, type);
  c10::SmallVector<KernelArgument, 40> arguments{
      out.data_ptr(),
      logsumexp.data_ptr(),
      q.data_ptr(),
      k.data_ptr(),
      v.data_ptr(),
      pointerOf(added)};
  for (const auto* tensor : {&q, &k, &v, &added}) {
    for (const auto d : {0, 1, 2}) {
      arguments.emplace_back(
          tensor->defined() ? tensor->stride(d) : int64_t(0));
    }
  }
  arguments.emplace_back(added.defined() ? added.stride(3) : int64_t(0));
  for (const auto number :
       {q.size(1),
        q.size(2),
        k.size(2),
        q.size(3),
        v.size(3),
        int64_t(causal),
        int64_t(hasAlignedRows(k))}) {
    arguments.emplace_back(static_cast<uint32_t>(number));
  }
  arguments.emplace_back(kernelNumber(scale, type));
  kAttentionFew.launch(
      op, type, device, groups * kItemsOfFew, arguments, kItemsOfFew);
  return true;
}

void keepNone(
    const AttentionCall& call,
    KernelType type,
    const Tensor& out,
    const Tensor& logsumexp) {
  const auto& query = call.query;
  const auto keys = call.key.size(2);
  const auto device = query.device().index();
  const auto added =
      call.mask.expand({query.size(0), query.size(1), query.size(2), keys});
  c10::SmallVector<KernelArgument, 24> arguments{
      out.data_ptr(), logsumexp.data_ptr(), added.data_ptr()};
  for (const auto* tensor : {&out, &logsumexp, &added}) {
    for (const auto d : {0, 1, 2}) {
      arguments.emplace_back(tensor->stride(d));
    }
  }
  arguments.emplace_back(added.stride(3));
  for (const auto number :
       {query.size(0),
        query.size(1),
        query.size(2),
        keys,
        out.size(3),
        int64_t(call.causal)}) {
    arguments.emplace_back(static_cast<uint32_t>(number));
  }
  kAttentionNone.launch(
      call.op,
      type,
      device,
      query.size(0) * query.size(1) * query.size(2),
      arguments);
}

std::tuple<Tensor, Tensor> attendByKernels(
    const AttentionCall& call,
    KernelType type) {
  const Attention attention(call, type);
  const auto options = call.query.options();
  const auto out = at::empty(
      {attention.query.size(0), attention.queries(), call.value.size(3)},
      options);
  const auto logsumexp = at::empty(
      {attention.query.size(0), attention.queries()}, attention.numbers());
  attention.each([&](const AttentionPart& part) {
    const auto products = attention.productsOf(part, attention.numbers());
    const auto softmax = attention.productsOf(part, options);
    attention.product(
        Matrices::of(products),
        rowsOf(attention.query, part, part.from, part.queries),
        rowsOf(attention.key, part, 0, part.keys).transposed());
    attention.launch(
        kAttention,
        part,
        {softmax.data_ptr(), logsumexp.data_ptr(), products.data_ptr()});
    attention.product(
        rowsOf(out, part, part.from, part.queries),
        Matrices::of(softmax),
        rowsOf(attention.value, part, 0, part.keys));
  });
  return {attention.byImages(out), attention.byImages(logsumexp)};
}

AttentionGrads attendBackByKernels(
    const AttentionCall& call,
    KernelType type,
    const Tensor& grad,
    const Tensor& logsumexp,
    const Tensor& of_mask) {
  const Attention attention(call, type);
  const auto options = call.query.options();
  const auto of_out = grad.flatten(0, 1);
  const auto known = logsumexp.contiguous();
  const auto of_query = at::empty(attention.query.sizes(), options);
  // Keys and values get a part of their gradients from each block of queries.
  const auto sums = attention.blockSize() < attention.queries()
      ? attention.numbers()
      : options;
  const auto of_key = at::empty(attention.key.sizes(), sums);
  const auto of_value = at::empty(attention.value.sizes(), sums);
  if (call.causal && attention.keys() > attention.queries()) {
    of_key.zero_(); // no query sees the last ones
    of_value.zero_();
  }
  attention.each([&](const AttentionPart& part) {
    const bool add = part.from + part.queries < attention.queries();
    const auto products = attention.productsOf(part, attention.numbers());
    const auto of_softmax = attention.productsOf(part, attention.numbers());
    const auto softmax = attention.productsOf(part, options);
    const auto of_products = attention.productsOf(part, options);
    const auto queries = rowsOf(attention.query, part, part.from, part.queries);
    const auto keys = rowsOf(attention.key, part, 0, part.keys);
    const auto given = rowsOf(of_out, part, part.from, part.queries);
    attention.product(Matrices::of(products), queries, keys.transposed());
    attention.product(
        Matrices::of(of_softmax),
        given,
        rowsOf(attention.value, part, 0, part.keys).transposed());
    attention.launch(
        kAttentionGrad,
        part,
        {softmax.data_ptr(),
         of_products.data_ptr(),
         known.data_ptr(),
         products.data_ptr(),
         of_softmax.data_ptr()});
    if (of_mask.defined()) { // which is added to what is scaled
      TORCH_CHECK_NOT_IMPLEMENTED(
          call.scale != 0, "a mask has no gradients where the scale is 0");
      of_mask.flatten(0, 1)
          .narrow(0, part.first, part.heads)
          .narrow(1, part.from, part.queries)
          .narrow(2, 0, part.keys)
          .copy_(of_products / call.scale);
    }
    attention.product(
        rowsOf(of_query, part, part.from, part.queries),
        Matrices::of(of_products),
        keys);
    attention.product(
        rowsOf(of_key, part, 0, part.keys),
        Matrices::of(of_products).transposed(),
        queries,
        add);
    attention.product(
        rowsOf(of_value, part, 0, part.keys),
        Matrices::of(softmax).transposed(),
        given,
        add);
  });
  const auto typed = [&](const Tensor& tensor) {
    return attention.byImages(tensor.to(options));
  };
  return {typed(of_query), typed(of_key), typed(of_value)};
}

} // namespace at::xpu::detail
