#include "Harness.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <numeric>
#include <sstream>

namespace bench {
namespace {

constexpr size_t kFewest = 9; // rounds that a median is taken of
constexpr size_t kMost = 4000;
constexpr size_t kLargestBatch = size_t{1} << 20;

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      result += '\\';
    }
    result += c;
  }
  return result + '"';
}

double quantile(const std::vector<double>& sorted, double q) {
  const double at = q * static_cast<double>(sorted.size() - 1);
  const auto low = static_cast<size_t>(at);
  const size_t high = std::min(low + 1, sorted.size() - 1);
  const double part = at - static_cast<double>(low);
  return sorted[low] * (1 - part) + sorted[high] * part;
}

/// low and high bound the median with 95 % confidence, by the ranks between
/// which it lies.
std::string spread(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const auto n = static_cast<double>(values.size());
  const double half = 0.98 * std::sqrt(n) / n;
  std::ostringstream out;
  out.precision(6);
  out << "{\"median\":" << quantile(values, 0.5)
      << ",\"p10\":" << quantile(values, 0.1)
      << ",\"p90\":" << quantile(values, 0.9)
      << ",\"low\":" << quantile(values, std::max(0.0, 0.5 - half))
      << ",\"high\":" << quantile(values, std::min(1.0, 0.5 + half)) << "}";
  return out.str();
}

void print(
    const std::string& id,
    const std::vector<std::string>& names,
    const std::vector<std::vector<double>>& values,
    size_t left_out) {
  std::ostringstream out;
  out << "{\"id\":" << quoted(id) << ",\"rounds\":" << values[0].size()
      << ",\"left_out\":" << left_out << ",\"sides\":[";
  for (size_t i = 0; i < names.size(); ++i) {
    out << (i ? "," : "") << "{\"name\":" << quoted(names[i])
        << ",\"value\":" << spread(values[i]) << ",\"ratio\":";
    if (values.size() > 1) {
      std::vector<double> ratios(values[i].size());
      std::transform(
          values[i].begin(),
          values[i].end(),
          values[1].begin(),
          ratios.begin(),
          std::divides<double>());
      out << spread(ratios) << "}";
    } else {
      out << "null}";
    }
  }
  std::cout << out.str() << "]}" << std::endl;
}

double timed(const Side& side, size_t n) {
  if (side.before) {
    side.before();
  }
  const double start = now();
  side.run(n);
  const double seconds = now() - start;
  if (side.after) {
    side.after();
  }
  return seconds;
}

/// How many times a side must do its thing to take about that long.
size_t calibrate(const Side& side, double seconds) {
  for (size_t n = 1;; n *= 2) {
    timed(side, n); // warms up
    const double took = timed(side, n);
    if (took >= seconds / 4 || n >= kLargestBatch) {
      const double fits = static_cast<double>(n) * seconds / took;
      return static_cast<size_t>(
          std::clamp(fits, 1.0, static_cast<double>(kLargestBatch)));
    }
  }
}

} // namespace

double now() {
  using Clock = std::chrono::steady_clock;
  return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

size_t preemptions() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return static_cast<size_t>(usage.ru_nivcsw);
}

Options parseOptions(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--quick") {
      options.quick = true;
    } else if (word == "--only" && i + 1 < argc) {
      options.only = argv[++i];
    } else {
      std::cerr << "Usage: " << argv[0] << " [--quick] [--only PREFIX]\n";
      std::exit(2);
    }
  }
  return options;
}

bool wanted(const Options& options, const std::string& id) {
  return id.rfind(options.only, 0) == 0;
}

void header(
    const std::string& runtime,
    const std::string& device,
    const std::string& backend) {
  std::cout << "{\"runtime\":" << quoted(runtime)
            << ",\"device\":" << quoted(device)
            << ",\"backend\":" << quoted(backend) << "}" << std::endl;
}

void report(const std::string& id, const std::vector<double>& values) {
  print(id, {""}, {values}, 0);
}

void compare(
    const Options& options,
    const std::string& id,
    const std::vector<Side>& sides,
    const Plan& plan) {
  if (!wanted(options, id)) {
    return;
  }
  std::vector<size_t> batches;
  std::vector<std::string> names;
  for (const Side& side : sides) {
    batches.push_back(
        plan.batch ? plan.batch : calibrate(side, plan.batch_us * 1e-6));
    names.push_back(side.name);
  }
  using Rounds = std::vector<std::vector<double>>;
  Rounds clean(sides.size());
  Rounds disturbed(sides.size());
  std::vector<size_t> order(sides.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::vector<double> round(sides.size());
  const double end = now() + plan.seconds / (options.quick ? 6 : 1);
  for (size_t rounds = 0; rounds < kMost; ++rounds) {
    if (rounds >= kFewest && now() > end) {
      break;
    }
    std::rotate(order.begin(), order.begin() + 1, order.end());
    const size_t before = preemptions();
    for (const size_t i : order) {
      round[i] =
          timed(sides[i], batches[i]) / static_cast<double>(batches[i]) * 1e9;
    }
    Rounds& kind = preemptions() == before ? clean : disturbed;
    for (size_t i = 0; i < sides.size(); ++i) {
      kind[i].push_back(round[i]);
    }
  }
  size_t left_out = disturbed[0].size();
  if (clean[0].size() < kFewest) { // a disturbed figure is better than none
    for (size_t i = 0; i < sides.size(); ++i) {
      clean[i].insert(clean[i].end(), disturbed[i].begin(), disturbed[i].end());
    }
    left_out = 0;
  }
  print(id, names, clean, left_out);
}

} // namespace bench
