#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <ATen/ceil_div.h>
#include <ATen/xpu/detail/Attention.h>
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
/// undefined where that would be a copy of too many. With dropout it may
/// be of any size: kernels would draw other numbers.
Tensor maskInRows(const AttentionCall& call) {
  const auto queries = call.query.size(2);
  const auto keys = call.key.size(2);
  auto whole = call.mask;
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
  if (whole.numel() > kMostOfMask && call.dropout == 0) {
    return Tensor();
  }
  const auto longer = at::ceil_div(keys, kNumbersStep) * kNumbersStep;
  return at::empty(
             {whole.size(0), whole.size(1), queries, longer}, whole.options())
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

/// Adds what only some calls have to what is in memory: a mask, seed and
/// offset. False where that would be a copy of too many; `added` is what is
/// read.
bool addOptional(
    const AttentionCall& call,
    std::vector<CudnnData>& data,
    Tensor& added) {
  if (call.mask.defined()) {
    added = maskInRows(call);
    if (!added.defined()) {
      return false;
    }
    data.push_back(dataOf(added));
  }
  if (call.dropout > 0) {
    for (const auto* number : {&call.seed, &call.offset}) {
      data.push_back(
          {CudnnType::Long, {1, 1, 1, 1}, {1, 1, 1, 1}, number->data_ptr()});
    }
  }
  return true;
}

/// A matrix for each head the other way round.
CudnnData transposed(CudnnData data) {
  std::swap(data.sizes[2], data.sizes[3]);
  std::swap(data.strides[2], data.strides[3]);
  return data;
}

CudnnRules rulesOf(const AttentionCall& call, bool backward) {
  CudnnRules rules;
  rules.key = {
      backward,
      call.causal,
      c10::bit_cast<int64_t>(call.scale),
      c10::bit_cast<int64_t>(call.dropout)};
  rules.deterministic = at::globalContext().deterministicAlgorithms();
  rules.patient = call.dropout == 0;
  return rules;
}

/// What both graphs have: products of queries and keys.
struct AttentionGraph {
  CudnnGraph& graph;
  const AttentionCall& call;
  CudnnGraph::Tensor mask = nullptr;
  CudnnGraph::Tensor seed = nullptr;
  CudnnGraph::Tensor offset = nullptr;
  CudnnType type; // of what is in memory
  std::array<int64_t, 4> products; // [images, heads, queries, keys]
  std::array<int64_t, 4> rows; // [images, heads, queries, 1]

  AttentionGraph(CudnnGraph& graph, const AttentionCall& call)
      : graph(graph),
        call(call),
        type(*cudnnTypeOf(call.query.scalar_type())),
        products{
            call.query.size(0),
            call.query.size(1),
            call.query.size(2),
            call.key.size(2)},
        rows{products[0], products[1], products[2], 1} {}

  /// What addOptional() has added, from `next` on.
  void addOptional(const CudnnData* next) {
    if (call.mask.defined()) {
      mask = graph.add(*next++);
    }
    if (call.dropout > 0) {
      seed = graph.add(*next++);
      offset = graph.add(*next++);
    }
  }

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
      CudnnGraph::Tensor key_transposed) {
    const auto multiplied = product();
    graph.multiply(query, key_transposed, multiplied);
    auto scaled =
        pointwise(CudnnPoint::Multiply, {multiplied, number(call.scale)});
    if (mask) {
      scaled = pointwise(CudnnPoint::Add, {scaled, mask});
    }
    if (!call.causal) {
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

  /// By what those that dropout leaves are multiplied.
  CudnnGraph::Tensor factor() {
    return number(call.dropout < 1 ? 1 / (1 - call.dropout) : 0);
  }

  /// 1 for a weight that dropout leaves, else 0; null without.
  CudnnGraph::Tensor kept() {
    if (!seed) {
      return nullptr;
    }
    const auto out = product();
    graph.draw(seed, offset, 1 - call.dropout, out);
    return out;
  }
  CudnnGraph::Tensor byKept(CudnnGraph::Tensor of, CudnnGraph::Tensor kept) {
    return kept ? pointwise(CudnnPoint::Multiply, {of, kept}) : of;
  }
  CudnnGraph::Tensor byFactor(CudnnGraph::Tensor of) {
    return seed ? pointwise(CudnnPoint::Multiply, {of, factor()}) : of;
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
  const auto fits = [](const c10::SymInt& numbers) {
    return numbers % kNumbersStep == 0 && numbers <= kMostNumbers;
  };
  return (type == kHalf || type == kBFloat16) && fits(query.sym_size(3)) &&
      fits(value.sym_size(3)) && query.sym_size(2) >= kFewQueries &&
      alike(mask, query) && (!causal || query.sym_size(2) <= key.sym_size(2)) &&
      at::globalContext().userEnabledCuDNN() &&
      hasCudnn(query.device().index()) &&
      isRecentCard(query.device().index()) &&
      cudnn().version() >= kAttentionVersion;
}

bool attendByCudnn(
    const AttentionCall& call,
    const Tensor& out,
    const Tensor& logsumexp) {
  const auto q = alignedRows(call.query);
  const auto k = alignedRows(call.key);
  const auto v = alignedRows(call.value);
  std::vector<CudnnData> data{
      dataOf(q),
      transposed(dataOf(k)),
      dataOf(v),
      dataOf(out),
      dataOf(logsumexp.unsqueeze(3))};
  const auto known = data.size();
  Tensor added;
  if (!addOptional(call, data, added)) {
    return false;
  }
  return computeByCudnn(
      call.op,
      q.device().index(),
      data,
      rulesOf(call, /*backward=*/false),
      [&](CudnnGraph& graph) {
        AttentionGraph of(graph, call);
        const auto query_in = graph.add(data[0]);
        const auto key_in = graph.add(data[1]);
        const auto value_in = graph.add(data[2]);
        const auto out_in = graph.add(data[3]);
        const auto logsumexp_in = graph.add(data[4]);
        of.addOptional(data.data() + known);
        const auto scores = of.scores(query_in, key_in);
        const auto most = of.row();
        graph.reduce(CudnnReduce::Max, scores, most);
        const auto less = of.pointwise(CudnnPoint::Subtract, {scores, most});
        const auto exp = of.pointwise(CudnnPoint::Exp, {less});
        const auto sum = of.row();
        graph.reduce(CudnnReduce::Add, exp, sum);
        const auto log = of.row();
        graph.point(CudnnPoint::Log, {sum}, log);
        graph.point(CudnnPoint::Add, {most, log}, logsumexp_in);
        auto softmax = of.product(of.type);
        if (auto* const kept = of.kept()) {
          const auto whole = of.pointwise(CudnnPoint::Divide, {exp, sum});
          const auto left = of.byKept(whole, kept);
          graph.point(CudnnPoint::Multiply, {left, of.factor()}, softmax);
        } else {
          graph.point(CudnnPoint::Divide, {exp, sum}, softmax);
        }
        graph.multiply(softmax, value_in, out_in);
      });
}

bool attendBackByCudnn(
    const AttentionCall& call,
    const Tensor& grad,
    const Tensor& out,
    const Tensor& logsumexp,
    const AttentionGrads& grads) {
  const auto q = alignedRows(call.query);
  const auto k = alignedRows(call.key);
  const auto v = alignedRows(call.value);
  const auto o = alignedRows(out);
  const auto g = alignedRows(grad);
  const auto numbers = q.options().dtype(kFloat);
  const auto sums = at::empty({q.size(0), q.size(1), q.size(2), 1}, numbers);
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
  // Blocks of keys add their parts to the queries' gradients in any order.
  const auto rules = rulesOf(call, /*backward=*/true);
  Tensor of_query;
  if (!rules.deterministic) {
    of_query = at::empty(q.sizes(), numbers);
    data.push_back(dataOf(of_query));
  }
  const auto known = data.size();
  Tensor added;
  if (!addOptional(call, data, added)) {
    return false;
  }
  return computeByCudnn(
      call.op, q.device().index(), data, rules, [&](CudnnGraph& graph) {
        AttentionGraph of(graph, call);
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
        auto* const sum_in =
            rules.deterministic ? nullptr : graph.add(data[10]);
        of.addOptional(data.data() + known);
        // of rows: the sum of out · grad; the library knows the graph with a
        // factor, which is that of dropout
        const auto weighted = graph.between(CudnnType::Float, o.sizes());
        graph.point(CudnnPoint::Multiply, {grad_in, out_in}, weighted);
        const auto summed = of.row();
        graph.reduce(CudnnReduce::Add, weighted, summed);
        graph.point(
            CudnnPoint::Multiply,
            {summed, of.number(1 - call.dropout)},
            sums_in);
        // the softmax again, and the values' gradients
        const auto scores = of.scores(query_in, key_in);
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
        auto* const kept = of.kept();
        const auto left = of.byFactor(of.byKept(softmax, kept));
        graph.multiply(turned(left), grad_in, of_value_in);
        // the products' gradients, and from them the others
        const auto of_softmax = of.product();
        graph.multiply(grad_in, value_in, of_softmax);
        const auto apart = of.pointwise(
            CudnnPoint::Subtract, {of.byKept(of_softmax, kept), sums_in});
        const auto by_softmax =
            of.byFactor(of.pointwise(CudnnPoint::Multiply, {apart, softmax}));
        const auto of_products = of.pointwise(
            CudnnPoint::Multiply, {by_softmax, of.number(call.scale)});
        graph.multiply(turned(of_products), query_in, of_key_in);
        const auto keys = graph.between(of.type, k.sizes(), k.strides());
        graph.reshape(key_in, keys);
        if (sum_in) {
          graph.multiply(of_products, keys, sum_in);
          graph.point(CudnnPoint::Identity, {sum_in}, of_query_in);
        } else {
          graph.multiply(of_products, keys, of_query_in);
        }
      });
}

} // namespace at::xpu::detail
