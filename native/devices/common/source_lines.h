// What a compiler of a driver says, with the lines of source that it speaks of.
#pragma once
#include <string>

namespace tw {

// The log, cut where it is long, and below it the lines of source that its first messages name.
std::string with_source(const std::string& log, const std::string& source);

}  // namespace tw
