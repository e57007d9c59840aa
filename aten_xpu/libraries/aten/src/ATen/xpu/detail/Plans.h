#pragma once

#include <c10/util/hash.h>

#include <cstddef>
#include <unordered_map>
#include <utility>

namespace at::xpu::detail {

/// What a library made for shapes, for one thread. Of too many one goes, in the
/// order of hashes: the least recent would be the next that a loop over more
/// shapes asks for.
template <class Key, class Plan, class Hash = c10::hash<Key>>
class Plans {
 public:
  /// Null if there is none.
  Plan* find(const Key& key) {
    const auto known = plans_.find(key);
    return known == plans_.end() ? nullptr : &known->second;
  }

  Plan& put(Key key, Plan plan) {
    for (; plans_.size() >= kMost; ++next_) {
      const auto bucket = next_ % plans_.bucket_count();
      if (plans_.bucket_size(bucket) > 0) {
        const auto old = plans_.begin(bucket)->first;
        plans_.erase(old);
      }
    }
    return plans_[std::move(key)] = std::move(plan);
  }

 private:
  static constexpr size_t kMost = 1024;
  std::unordered_map<Key, Plan, Hash> plans_;
  size_t next_ = 0; // bucket
};

} // namespace at::xpu::detail
