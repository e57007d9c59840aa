#pragma once

#include <string>
#include <vector>

namespace bench {

/// Runs this program again with these words and returns what it printed.
/// Ends this program if the child fails.
std::string runSelf(const std::vector<std::string>& words);

} // namespace bench
