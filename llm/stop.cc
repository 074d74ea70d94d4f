#include "llm/stop.h"

#include <algorithm>
#include <utility>

namespace musaic::llm {

StopMatcher::StopMatcher(std::vector<std::string> stops) : stops_(std::move(stops)) {
  std::erase(stops_, "");
  std::sort(stops_.begin(), stops_.end(),
            [](const std::string& a, const std::string& b) { return a.size() > b.size(); });
}

std::string StopMatcher::push(std::string_view bytes) {
  std::string out;
  for (const char byte : bytes) {
    if (stopped_) break;
    held_ += byte;
    size_t keep = 0;  // longest end of held_ with which a stop string begins
    for (const std::string& stop : stops_) {
      if (held_.ends_with(stop)) {
        out.append(held_, 0, held_.size() - stop.size());
        held_.clear();
        stopped_ = true;
        break;
      }
      for (size_t n = std::min(held_.size(), stop.size() - 1); n > keep; --n)
        if (held_.ends_with(std::string_view(stop).substr(0, n))) keep = n;
    }
    if (!stopped_) {
      out.append(held_, 0, held_.size() - keep);
      held_.erase(0, held_.size() - keep);
    }
  }
  return out;
}

std::string StopMatcher::flush() { return std::exchange(held_, {}); }

}  // namespace musaic::llm
