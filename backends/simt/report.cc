#include "backends/simt/report.h"

#include <array>
#include <atomic>
#include <cstdio>
#include <map>
#include <mutex>
#include <tuple>

#include "backends/simt/find.h"
#include "backends/simt/stream.h"
#include "backends/simt/symbol.h"
#include "backends/simt/worker.h"
#include "musaic/error.h"

namespace musaic::simt {
namespace {

constexpr std::size_t kMaxReports = 200;  // distinct ones; a broken kernel has few causes

using Key = std::tuple<Finding, std::string, const void*, std::string>;
/// Lines of source are looked up when the report is taken: not on a fiber's small stack.
struct Pending {
  Report report;
  const void *at, *other;
};
struct Reports {
  std::mutex mutex;
  std::vector<Pending> list;
  std::map<Key, std::size_t> index;
};
Reports& reports() {
  static Reports& r = *new Reports;
  return r;
}

constexpr std::uint32_t kSites = 1u << Stamp::kSiteBits;
std::array<std::atomic<const void*>, kSites> site_table{};

bool ends_with(const std::string& s, const char* tail) {
  const std::string t(tail);
  return s.size() >= t.size() && s.compare(s.size() - t.size(), t.size(), t) == 0;
}

/// The executor's own headers and the standard library are never the line that a reader looks for.
bool is_own_header(const std::string& file) {
  return ends_with(file, "backends/simt/kernel.h") || ends_with(file, "backends/simt/intrinsic.h") ||
         ends_with(file, "backends/simt/atomic.h") || ends_with(file, "backends/simt/launch.h") ||
         ends_with(file, "backends/simt/primitives.h") || file.find("/include/c++/") != std::string::npos;
}

const SourceLine* reader_line(const std::vector<SourceLine>& lines) {
  for (const SourceLine& l : lines)
    if (!is_own_header(l.file)) return &l;
  return lines.empty() ? nullptr : &lines.front();
}

void fill_place(Report& r, const void* return_address) {
  const auto lines = source_lines(return_address);
  if (const SourceLine* l = reader_line(lines)) {
    r.file = l->file;
    r.line = l->line;
  }
  for (const SourceLine& l : lines)
    if (!is_own_header(l.file))
      r.where.push_back(l.file + ":" + std::to_string(l.line) + " (" + l.function + ")");
}

void fill_other(Report& r, const void* return_address) {
  const auto lines = source_lines(return_address);
  if (const SourceLine* l = reader_line(lines)) {
    r.other_file = l->file;
    r.other_line = l->line;
  }
}

void fill_work(Report& r, const WorkInfo& work) {
  r.target = current_target().name;
  r.kernel = work.kernel;
  r.seed = options().seed;
  r.schedule = options().schedule;
}

void add(Report r, const void* return_address, const void* other_address = nullptr) {
  Reports& all = reports();
  const std::lock_guard<std::mutex> lock(all.mutex);
  const Key key{r.finding, r.kernel, return_address,
                return_address != nullptr
                    ? std::string()
                    : r.file + ":" + std::to_string(r.line) + ":" + std::to_string(r.other_line)};
  const auto [it, fresh] = all.index.emplace(key, all.list.size());
  if (!fresh) {
    if (it->second < all.list.size()) ++all.list[it->second].report.count;
    return;
  }
  if (all.list.size() < kMaxReports) all.list.push_back({std::move(r), return_address, other_address});
}

/// Whether a finding of this kind from this line is known: then the text need not be made again.
bool count_again(Finding finding, const std::string& kernel, const void* return_address) {
  if (return_address == nullptr) return false;
  Reports& all = reports();
  const std::lock_guard<std::mutex> lock(all.mutex);
  const auto it = all.index.find({finding, kernel, return_address, std::string()});
  if (it == all.index.end()) return false;
  if (it->second < all.list.size()) ++all.list[it->second].report.count;
  return true;
}

}  // namespace

const char* name(Finding finding) {
  static constexpr const char* kNames[] = {
      "global-bounds",       "shared-bounds",  "index-bounds",     "misaligned",       "host-pointer",
      "peer-access",         "constant-write", "shared-unwritten", "global-unwritten", "output-unwritten",
      "shared-race",         "global-race",    "missing-fence",    "stream-order",     "barrier-divergence",
      "exchange-divergence", "exchange-lane",  "exchange-mask",    "exchange-width",   "launch-limit",
      "launch-bounds",       "constant-limit", "feature",          "livelock",         "trap",
      "order-dependence"};
  return kNames[static_cast<int>(finding)];
}

const char* name(Schedule schedule) {
  static constexpr const char* kNames[] = {"in-order", "random", "run-ahead"};
  return kNames[static_cast<int>(schedule)];
}

std::string text(Index3 i) {
  return "(" + std::to_string(i.x) + ", " + std::to_string(i.y) + ", " + std::to_string(i.z) + ")";
}

std::string hex(const void* address) {
  char s[32];
  std::snprintf(s, sizeof s, "%p", address);
  return s;
}

std::string who(Stamp stamp) {
  if (stamp.slot() == kHostSlot) return "the host";
  if (stamp.slot() == kSharedSlot) return "an unknown block";
  const SlotInfo& s = slot_info(stamp.slot());
  const std::string thread =
      stamp.reach() == 0 ? "thread " + text(index_in(stamp.thread(), s.work->block)) : "several threads";
  return thread + " of block " + text(index_in(s.block, s.work->grid)) + " of " + s.work->kernel;
}

std::uint32_t site_number(const void* return_address) {
  Worker& w = *this_worker;
  const auto bits = reinterpret_cast<std::uintptr_t>(return_address);
  Worker::KnownSite& known = w.sites[(bits >> 1 ^ bits >> 9) & 255];
  if (known.address == return_address) return known.site;
  std::uint32_t i = static_cast<std::uint32_t>((bits * 0x9e3779b97f4a7c15ull) >> (64 - Stamp::kSiteBits));
  for (std::uint32_t tries = 0; tries < kSites; ++tries, i = (i + 1) % kSites) {
    if (i == 0) continue;
    const void* expected = nullptr;
    if (site_table[i].compare_exchange_strong(expected, return_address) || expected == return_address) {
      known = {return_address, i};
      return i;
    }
  }
  return 0;
}

const void* site_address(std::uint32_t number) { return number == 0 ? nullptr : site_table[number].load(); }

void found(Finding finding, const Lane& lane, const void* return_address, const void* address,
           std::string message, int at_lane, const void* other_address) {
  const WorkInfo& work = *lane.block->work->info;
  if (count_again(finding, work.kernel, return_address)) return;
  Report r;
  r.finding = finding;
  fill_work(r, work);
  r.block = index_in(lane.block->linear, work.grid);
  r.thread = index_in(lane.index, work.block);
  r.address = address;
  r.lane = at_lane;
  r.message = std::move(message);
  add(std::move(r), return_address, other_address);
}

void found_at(Finding finding, const Work& work, Index3 block, Index3 thread, Site site, std::string message,
              int at_lane) {
  Report r;
  r.finding = finding;
  fill_work(r, *work.info);
  if (site.file != nullptr) {
    r.file = site.file;
    r.line = site.line;
  }
  r.block = block;
  r.thread = thread;
  r.lane = at_lane;
  r.message = std::move(message);
  add(std::move(r), nullptr);
}

void found_in_work(Finding finding, const WorkInfo& work, const void* address, std::string message,
                   const void* other_address) {
  Report r;
  r.finding = finding;
  fill_work(r, work);
  r.address = address;
  r.message = std::move(message);
  add(std::move(r), nullptr, other_address);
}

std::string Report::text() const {
  std::string s = std::string(target) + ": " + name(finding) + ": " + message;
  if (!kernel.empty()) s += "\n  kernel " + kernel;
  if (line > 0) s += "\n  at " + file + ":" + std::to_string(line);
  for (std::size_t i = 0; i + 1 < where.size(); ++i)
    s += (i == 0 ? "\n     " : "\n     from ") + where[i + (i == 0 ? 0 : 0)];
  if (where.size() > 1) s += "\n     from " + where.back();
  if (other_line > 0) s += "\n  other side at " + other_file + ":" + std::to_string(other_line);
  if (line > 0 || lane >= 0 || address != nullptr)
    s += "\n  block " + simt::text(block) + ", thread " + simt::text(thread);
  if (lane >= 0) s += ", lane " + std::to_string(lane);
  if (address != nullptr) s += ", address " + hex(address);
  if (count > 1) s += "\n  " + std::to_string(count) + " times from this line";
  s += "\n  schedule " + std::string(name(schedule));
  if (schedule != Schedule::kInOrder)
    s += ", seed " + std::to_string(seed) + " (run again with MUSAIC_SIMT_SCHEDULE=" + name(schedule) +
         " MUSAIC_SIMT_SEED=" + std::to_string(seed) + ")";
  return s;
}

std::vector<Report> take_reports() {
  synchronize();
  Reports& all = reports();
  const std::lock_guard<std::mutex> lock(all.mutex);
  all.index.clear();
  std::vector<Report> list;
  for (Pending& p : std::exchange(all.list, {})) {
    if (p.at != nullptr) fill_place(p.report, p.at);
    if (p.other != nullptr) fill_other(p.report, p.other);
    list.push_back(std::move(p.report));
  }
  return list;
}

void raise_reports() {
  const auto list = take_reports();
  if (list.empty()) return;
  std::string s;
  for (const Report& r : list) s += (s.empty() ? "" : "\n") + r.text();
  throw Error(s);
}

std::size_t report_count() {
  Reports& all = reports();
  const std::lock_guard<std::mutex> lock(all.mutex);
  return all.list.size();
}

}  // namespace musaic::simt
