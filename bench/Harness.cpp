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

constexpr double kQuick = 1.0 / 6; // of a figure's time
constexpr size_t kFewest = 9; // rounds that a median is taken of
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

/// {"median":..,"p10":..,"p90":..,"low":..,"high":..}; low and high bound the
/// median with 95 % confidence, by the ranks between which it lies.
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

std::vector<double> ratios(
    const std::vector<double>& above,
    const std::vector<double>& below) {
  std::vector<double> result(above.size());
  std::transform(
      above.begin(),
      above.end(),
      below.begin(),
      result.begin(),
      std::divides<double>());
  return result;
}

const char* nameOf(Bound kind) {
  switch (kind) {
    case Bound::None:
      return "none";
    case Bound::RatioAtMost:
      return "ratio at most";
    case Bound::ValueAtMost:
      return "value at most";
    case Bound::ValueAtLeast:
      return "value at least";
  }
  std::abort();
}

double timed(const Side& side, size_t n) {
  if (side.before) {
    side.before(n);
  }
  const double start = now();
  side.run(n);
  const double seconds = now() - start;
  if (side.after) {
    side.after(n);
  }
  return seconds;
}

/// How many times a side must do its thing to take about that long.
size_t calibrate(const Side& side, double seconds) {
  for (size_t n = 1;; n *= 2) {
    // The second time: the first one warms up.
    timed(side, n);
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

uint64_t preemptions() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return static_cast<uint64_t>(usage.ru_nivcsw);
}

Options parseOptions(int argc, char** argv, std::vector<std::string>* words) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--quick") {
      options.quick = true;
    } else if (word == "--only" && i + 1 < argc) {
      options.only = argv[++i];
    } else if (words && word.rfind("--", 0) != 0) {
      words->push_back(word);
    } else {
      std::cerr << argv[0] << ": what is " << word
                << "? Usage: [--quick] [--only PREFIX]\n";
      std::exit(2);
    }
  }
  return options;
}

bool wanted(const Options& options, const std::string& id) {
  return id.rfind(options.only, 0) == 0;
}

void report(
    const Options& options,
    const Figure& figure,
    const std::vector<std::string>& names,
    const std::vector<std::vector<double>>& values,
    size_t left_out,
    int need) {
  if (!wanted(options, figure.id)) {
    return;
  }
  std::ostringstream out;
  out << "{\"id\":" << quoted(figure.id)
      << ",\"title\":" << quoted(figure.title)
      << ",\"unit\":" << quoted(figure.unit)
      << ",\"kind\":" << quoted(nameOf(figure.kind))
      << ",\"bound\":" << figure.bound << ",\"note\":" << quoted(figure.note)
      << ",\"rounds\":" << values[0].size() << ",\"left_out\":" << left_out
      << ",\"sides\":[";
  for (size_t i = 0; i < names.size(); ++i) {
    out << (i ? "," : "") << "{\"name\":" << quoted(names[i])
        << ",\"value\":" << spread(values[i]);
    if (values.size() > 1) {
      out << ",\"ratio\":" << spread(ratios(values[i], values[1]));
    }
    out << "}";
  }
  out << "],\"need\":" << need << "}";
  std::cout << out.str() << std::endl;
}

void check(const std::string& id, const std::string& title, bool holds) {
  std::cout << "{\"id\":" << quoted(id) << ",\"title\":" << quoted(title)
            << ",\"kind\":\"fact\",\"holds\":" << (holds ? "true" : "false")
            << "}" << std::endl;
}

void compare(
    const Options& options,
    const Figure& figure,
    const std::vector<Side>& sides,
    const Plan& plan,
    int need) {
  if (!wanted(options, figure.id)) {
    return;
  }
  std::vector<size_t> batches;
  std::vector<std::string> names;
  for (const Side& side : sides) {
    batches.push_back(
        plan.batch ? plan.batch : calibrate(side, plan.batch_us * 1e-6));
    names.push_back(side.name);
  }
  std::vector<std::vector<double>> clean(sides.size());
  std::vector<std::vector<double>> disturbed(sides.size());
  const double end = now() + plan.seconds * (options.quick ? kQuick : 1);
  std::vector<size_t> order(sides.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::vector<double> round(sides.size());
  for (size_t rounds = 0; rounds < plan.max_rounds; ++rounds) {
    if (rounds >= kFewest && now() > end) {
      break;
    }
    std::rotate(order.begin(), order.begin() + 1, order.end());
    if (rounds % 2) {
      std::reverse(order.begin(), order.end());
    }
    const uint64_t before = preemptions();
    for (const size_t i : order) {
      round[i] =
          timed(sides[i], batches[i]) / static_cast<double>(batches[i]) * 1e9;
    }
    auto& rounds_of = preemptions() == before ? clean : disturbed;
    for (size_t i = 0; i < sides.size(); ++i) {
      rounds_of[i].push_back(round[i]);
    }
  }
  size_t left_out = disturbed[0].size();
  if (clean[0].size() < kFewest) { // better a disturbed figure than none
    for (size_t i = 0; i < sides.size(); ++i) {
      clean[i].insert(clean[i].end(), disturbed[i].begin(), disturbed[i].end());
    }
    left_out = 0;
  }
  report(options, figure, names, clean, left_out, need);
}

} // namespace bench
