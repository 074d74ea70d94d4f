// Stop strings in a stream of bytes.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace musaic::llm {

/// Finds the first of some strings in a stream, however the stream is cut, and never gives out a byte that
/// might belong to one. The string that ends first wins, of those that end together the longest.
class StopMatcher {
 public:
  /// Empty strings are left out.
  explicit StopMatcher(std::vector<std::string> stops = {});

  /// Takes the next bytes; returns those that are certain to stand before any stop string.
  std::string push(std::string_view bytes);
  /// Ends the stream: returns what was held back.
  std::string flush();
  bool stopped() const { return stopped_; }

 private:
  std::vector<std::string> stops_;  // longest first
  std::string held_;                // a beginning of a stop string
  bool stopped_ = false;
};

}  // namespace musaic::llm
