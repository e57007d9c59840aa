#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <ATen/ceil_div.h>
#include <ATen/xpu/detail/CudnnAttention.h>
#include <ATen/xpu/detail/CudnnGraph.h>
#include <ATen/xpu/detail/Structured.h>
#include <c10/util/bit_cast.h>

#include <array>
#include <limits>
#include <utility>
#include <vector>

namespace at::xpu::detail {

namespace {

// The oldest that computes all of this right: 9.10.2.
constexpr size_t kAttentionVersion = 91002;
constexpr int64_t kMostNumbers = 128; // of a query
constexpr int64_t kNumbersStep = 8;
constexpr int64_t kMostOfMask = 1 << 26; // elements of a copy

/// As the library reads it, without strides of 0.
Tensor alignedRows(const Tensor& tensor) {
  const bool is_plain = hasAlignedRows(tensor) && tensor.stride(0) > 0 &&
      tensor.stride(1) > 0 && tensor.stride(2) > 0;
  return is_plain ? tensor : tensor.clone(MemoryFormat::Contiguous);
}

/// [images or 1, heads or 1, queries, keys], in rows as the library reads them;
/// undefined where that would be a copy of too many.
Tensor maskInRows(const Tensor& mask, int64_t queries, int64_t keys) {
  auto whole = mask;
  while (whole.dim() < 4) {
    whole = whole.unsqueeze(0);
  }
  for (const auto d : {0, 1}) {
    if (whole.stride(d) == 0) {
      whole = whole.narrow(d, 0, 1);
    }
  }
  whole = whole.expand({whole.size(0), whole.size(1), queries, keys});
  if (hasAlignedRows(whole) && whole.stride(2) > 0) {
    return whole;
  }
  if (whole.numel() > kMostOfMask) {
    return Tensor();
  }
  const auto longer = at::ceil_div(keys, kNumbersStep) * kNumbersStep;
  return at::empty(
             {whole.size(0), whole.size(1), queries, longer}, mask.options())
      .narrow(3, 0, keys)
      .copy_(whole);
}

CudnnData dataOf(const Tensor& tensor) {
  CudnnData data{*cudnnTypeOf(tensor.scalar_type())};
  data.sizes.assign(tensor.sizes().begin(), tensor.sizes().end());
  data.strides.assign(tensor.strides().begin(), tensor.strides().end());
  data.data = tensor.data_ptr();
  return data;
}

/// Adds a mask to what is in memory, if there is one; `added` is what is read.
/// False where that would be a copy of too many.
bool addMask(
    const Tensor& mask,
    int64_t queries,
    int64_t keys,
    std::vector<CudnnData>& data,
    Tensor& added) {
  if (!mask.defined()) {
    return true;
  }
  added = maskInRows(mask, queries, keys);
  if (!added.defined()) {
    return false;
  }
  data.push_back(dataOf(added));
  return true;
}

/// A matrix for each head the other way round.
CudnnData transposed(CudnnData data) {
  std::swap(data.sizes[2], data.sizes[3]);
  std::swap(data.strides[2], data.strides[3]);
  return data;
}

CudnnRules rulesOf(bool backward, bool causal, double scale) {
  CudnnRules rules;
  rules.key = {backward, causal, c10::bit_cast<int64_t>(scale)};
  rules.deterministic = at::globalContext().deterministicAlgorithms();
  rules.patient = true;
  return rules;
}

/// What both graphs have: products of queries and keys.
struct AttentionGraph {
  CudnnGraph& graph;
  CudnnType type; // of what is in memory
  std::array<int64_t, 4> products; // [images, heads, queries, keys]
  std::array<int64_t, 4> rows; // [images, heads, queries, 1]

  AttentionGraph(CudnnGraph& graph, const Tensor& query, const Tensor& key)
      : graph(graph),
        type(*cudnnTypeOf(query.scalar_type())),
        products{query.size(0), query.size(1), query.size(2), key.size(2)},
        rows{query.size(0), query.size(1), query.size(2), 1} {}

  CudnnGraph::Tensor product(CudnnType of = CudnnType::Float) {
    return graph.between(of, products);
  }
  CudnnGraph::Tensor row() {
    return graph.between(CudnnType::Float, rows);
  }
  CudnnGraph::Tensor number(double value) {
    return graph.number(static_cast<float>(value));
  }

  /// What `what` makes of products.
  CudnnGraph::Tensor pointwise(
      CudnnPoint what,
      std::initializer_list<CudnnGraph::Tensor> from) {
    const auto out = product();
    graph.point(what, from, out);
    return out;
  }

  /// query · keyᵀ · scale + mask, and -inf where a query does not see a key.
  CudnnGraph::Tensor scores(
      CudnnGraph::Tensor query,
      CudnnGraph::Tensor key_transposed,
      CudnnGraph::Tensor mask, // or null
      double scale,
      bool causal) {
    const auto multiplied = product();
    graph.multiply(query, key_transposed, multiplied);
    auto scaled = pointwise(CudnnPoint::Multiply, {multiplied, number(scale)});
    if (mask) {
      scaled = pointwise(CudnnPoint::Add, {scaled, mask});
    }
    if (!causal) {
      return scaled;
    }
    const auto index = [&](int64_t axis) {
      const auto out = product(CudnnType::Int);
      graph.point(CudnnPoint::Index, {scaled}, out, CudnnType::Float, axis);
      return out;
    };
    const auto of_query = index(2);
    const auto of_key = index(3);
    const auto sees = product(CudnnType::Bool);
    graph.point(
        CudnnPoint::GreaterEqual, {of_query, of_key}, sees, CudnnType::Bool);
    const auto none = number(-std::numeric_limits<double>::infinity());
    return pointwise(CudnnPoint::Select, {scaled, none, sees});
  }
};

} // namespace

bool hasAlignedRows(const Tensor& tensor) {
  constexpr int64_t kAligned = 16; // bytes
  const auto fits = [&](int64_t elements) {
    return elements * tensor.element_size() % kAligned == 0;
  };
  return tensor.stride(3) == 1 && fits(tensor.size(3)) &&
      fits(tensor.stride(0)) && fits(tensor.stride(1)) &&
      fits(tensor.stride(2)) &&
      reinterpret_cast<uintptr_t>(tensor.data_ptr()) % kAligned == 0;
}

bool attendsByCudnn(
    const Tensor& query,
    const Tensor& key,
    const Tensor& value,
    const Tensor& mask,
    bool causal) {
  const auto type = query.scalar_type();
  const auto fits = [](int64_t numbers) {
    return numbers % kNumbersStep == 0 && numbers <= kMostNumbers;
  };
  return (type == kHalf || type == kBFloat16) && fits(query.size(3)) &&
      fits(value.size(3)) && query.size(2) >= kFewQueries &&
      alike(mask, query) && (!causal || query.size(2) <= key.size(2)) &&
      at::globalContext().userEnabledCuDNN() &&
      hasCudnn(query.device().index()) &&
      cudnn().version() >= kAttentionVersion;
}

bool attendByCudnn(
    const std::string& op,
    const Tensor& query,
    const Tensor& key,
    const Tensor& value,
    const Tensor& mask,
    const Tensor& out,
    const Tensor& logsumexp,
    bool causal,
    double scale) {
  const auto q = alignedRows(query);
  const auto k = alignedRows(key);
  const auto v = alignedRows(value);
  std::vector<CudnnData> data{
      dataOf(q),
      transposed(dataOf(k)),
      dataOf(v),
      dataOf(out),
      dataOf(logsumexp.unsqueeze(3))};
  Tensor added;
  if (!addMask(mask, q.size(2), k.size(2), data, added)) {
    return false;
  }
  return computeByCudnn(
      op,
      query.device().index(),
      data,
      rulesOf(/*backward=*/false, causal, scale),
      [&](CudnnGraph& graph) {
        AttentionGraph of(graph, q, k);
        const auto query_in = graph.add(data[0]);
        const auto key_in = graph.add(data[1]);
        const auto value_in = graph.add(data[2]);
        const auto out_in = graph.add(data[3]);
        const auto logsumexp_in = graph.add(data[4]);
        auto* const mask_in = added.defined() ? graph.add(data[5]) : nullptr;
        const auto scores = of.scores(query_in, key_in, mask_in, scale, causal);
        const auto most = of.row();
        graph.reduce(CudnnReduce::Max, scores, most);
        const auto less = of.pointwise(CudnnPoint::Subtract, {scores, most});
        const auto exp = of.pointwise(CudnnPoint::Exp, {less});
        const auto sum = of.row();
        graph.reduce(CudnnReduce::Add, exp, sum);
        const auto log = of.row();
        graph.point(CudnnPoint::Log, {sum}, log);
        graph.point(CudnnPoint::Add, {most, log}, logsumexp_in);
        const auto softmax = of.product(of.type);
        graph.point(CudnnPoint::Divide, {exp, sum}, softmax);
        graph.multiply(softmax, value_in, out_in);
      });
}

bool attendBackByCudnn(
    const std::string& op,
    const Tensor& grad,
    const Tensor& query,
    const Tensor& key,
    const Tensor& value,
    const Tensor& mask,
    const Tensor& out,
    const Tensor& logsumexp,
    const std::array<Tensor, 3>& grads,
    bool causal,
    double scale) {
  const auto q = alignedRows(query);
  const auto k = alignedRows(key);
  const auto v = alignedRows(value);
  const auto o = alignedRows(out);
  const auto g = alignedRows(grad);
  const auto numbers = query.options().dtype(kFloat);
  const auto sums =
      at::empty({query.size(0), query.size(1), query.size(2), 1}, numbers);
  std::vector<CudnnData> data{
      dataOf(g),
      dataOf(q),
      transposed(dataOf(k)),
      transposed(dataOf(v)),
      dataOf(o),
      dataOf(logsumexp.unsqueeze(3)),
      dataOf(grads[0]),
      dataOf(grads[1]),
      dataOf(grads[2]),
      dataOf(sums)};
  Tensor added;
  if (!addMask(mask, q.size(2), k.size(2), data, added)) {
    return false;
  }
  // Blocks of keys add their parts to the queries' gradients in any order.
  const auto rules = rulesOf(/*backward=*/true, causal, scale);
  Tensor of_query;
  if (!rules.deterministic) {
    of_query = at::empty(query.sizes(), numbers);
    data.push_back(dataOf(of_query));
  }
  return computeByCudnn(
      op, query.device().index(), data, rules, [&](CudnnGraph& graph) {
        AttentionGraph of(graph, q, k);
        const auto grad_in = graph.add(data[0]);
        const auto query_in = graph.add(data[1]);
        const auto key_in = graph.add(data[2]);
        const auto value_in = graph.add(data[3]);
        const auto out_in = graph.add(data[4]);
        const auto logsumexp_in = graph.add(data[5]);
        const auto of_query_in = graph.add(data[6]);
        const auto of_key_in = graph.add(data[7]);
        const auto of_value_in = graph.add(data[8]);
        const auto sums_in = graph.add(data[9]);
        auto* const mask_in = added.defined() ? graph.add(data[10]) : nullptr;
        // of rows: the sum of out · grad; the library knows the graph with a
        // factor, which is that of dropout
        const auto weighted = graph.between(CudnnType::Float, o.sizes());
        graph.point(CudnnPoint::Multiply, {grad_in, out_in}, weighted);
        const auto summed = of.row();
        graph.reduce(CudnnReduce::Add, weighted, summed);
        graph.point(CudnnPoint::Multiply, {summed, of.number(1)}, sums_in);
        // the softmax again, and the values' gradients
        const auto scores = of.scores(query_in, key_in, mask_in, scale, causal);
        const auto less =
            of.pointwise(CudnnPoint::Subtract, {scores, logsumexp_in});
        const auto softmax = of.pointwise(CudnnPoint::Exp, {less});
        const auto turned = [&](CudnnGraph::Tensor products) {
          const auto& [images, heads, queries, keys] = of.products;
          const std::array<int64_t, 4> sizes{images, heads, keys, queries};
          const std::array<int64_t, 4> strides{
              heads * queries * keys, queries * keys, 1, keys};
          const auto result = graph.between(of.type, sizes, strides);
          graph.reshape(products, result);
          return result;
        };
        graph.multiply(turned(softmax), grad_in, of_value_in);
        // the products' gradients, and from them the others
        const auto of_softmax = of.product();
        graph.multiply(grad_in, value_in, of_softmax);
        const auto apart =
            of.pointwise(CudnnPoint::Subtract, {of_softmax, sums_in});
        const auto by_softmax =
            of.pointwise(CudnnPoint::Multiply, {apart, softmax});
        const auto of_products =
            of.pointwise(CudnnPoint::Multiply, {by_softmax, of.number(scale)});
        graph.multiply(turned(of_products), query_in, of_key_in);
        const auto keys = graph.between(of.type, k.sizes(), k.strides());
        graph.reshape(key_in, keys);
        if (rules.deterministic) {
          graph.multiply(of_products, keys, of_query_in);
        } else {
          const auto sum = graph.add(data.back());
          graph.multiply(of_products, keys, sum);
          graph.point(CudnnPoint::Identity, {sum}, of_query_in);
        }
      });
}

} // namespace at::xpu::detail
