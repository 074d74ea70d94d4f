#include <cstdio>
#include <string>
#include <vector>

#include "cli/check/check.h"
#include "cli/commands.h"
#include "musaic/device.h"
#include "musaic/error.h"
#include "musaic/registry.h"

#if defined(MUSAIC_HAS_SIMT)
#include "backends/simt/device.h"
#include "backends/simt/report.h"
#include "cli/planted.h"
#endif

namespace musaic::cli {
namespace {

#if defined(MUSAIC_HAS_SIMT)

using checks::Case;
using checks::Outcome;

/// What the tour shows, and which of the operator's cases of `musaic check`: the last one whose shape begins so.
struct Stop {
  const char *op, *shape;
};
constexpr Stop kStops[] = {{"fused_add_rmsnorm", ""},
                           {"ggml_mul_mat_vec_a8", "Q4_K"},
                           {"ggml_mul_mat_a8", "Q4_1"},
                           {"paged_attention", ""},
                           {"sampling_from_logits", "5x257_k5"}};

const Case* find_case(const std::vector<Case>& cases, const Stop& stop, DType dtype) {
  const Case* found = nullptr;
  for (const Case& c : cases)
    if (c.op == stop.op && c.dtype == dtype && c.shape.rfind(stop.shape, 0) == 0) found = &c;
  return found;
}

/// Calls that went wrong.
int visit(const char* target, const std::vector<Case>& cases) {
  const Device device = find_device(target);
  const simt::DeviceRecord& t = simt::current_target();
  std::printf(
      "%s: a hardware warp of %d lanes (the host reads %d), exchanges within %d, %lld bytes of shared and "
      "%lld of\n"
      "  constant memory, blocks of at most %d threads%s\n",
      target, t.hardware_warp, t.host_warp_size, t.max_exchange_width,
      static_cast<long long>(t.max_shared_bytes), static_cast<long long>(t.constant_bytes),
      t.max_threads_per_block, t.has_fp8 ? "" : ", no fp8");
  int wrong = 0;
  for (const Stop& stop : kStops) {
    if (!has_operator(stop.op, device)) {
      std::printf("  %-22s left out: it has no form for GPUs yet\n", stop.op);
      continue;
    }
    for (const DType dtype : {kFloat16, kBFloat16, kFloat32}) {
      const Case* c = find_case(cases, stop, dtype);
      if (c == nullptr) {
        std::printf("  %-22s %-9s left out: musaic check has no such case\n", stop.op,
                    to_string(dtype).c_str());
        continue;
      }
      const Outcome o = checks::run(*c, device, 1);
      if (o.state != Outcome::State::kPassed) {
        ++wrong;
        std::printf("  %-22s %-9s %-24s WRONG: %s\n", stop.op, to_string(dtype).c_str(), c->shape.c_str(),
                    o.text.c_str());
        continue;
      }
      std::printf("  %-22s %-9s %-24s %s; error at most %.2f of its bound", stop.op, to_string(dtype).c_str(),
                  c->shape.c_str(), o.bytes_equal ? "bits equal to the CPU" : "bits differ from the CPU",
                  o.worst);
      if (dtype == kFloat32) std::printf(" (%s)", c->tolerance.c_str());
      std::printf("\n");
    }
  }
  return wrong;
}

/// The findings of the planted kernel on a target.
std::vector<simt::Report> run_planted(const char* target) {
  constexpr int kRows = 6, kSize = 100;
  const Device device = find_device(target);
  const OwnedTensor x(kFloat32, {kRows, kSize}, device), sums(kFloat32, {kRows}, device);
  const std::vector<float> ones(kRows * kSize, 1.0f);
  copy_to_device(device, x.view().data(), ones.data(), x.size_in_bytes());
  planted_row_sums(x.data_as<float>(), sums.data_as<float>(), kRows, kSize);
  return simt::take_reports();
}

int tour() {
  std::printf(
      "The MUSA tour: kernels run on this CPU under the rules of Moore Threads GPUs, with every access "
      "checked.\n"
      "These are models of the hardware (docs/simt.md); no Moore Threads card was used.\n\n");
  const std::vector<Case> cases = checks::all_cases();
  int wrong = 0;
  for (const char* target : {"simt:musa-mp31", "simt:musa-mp22"}) wrong += visit(target, cases);

  std::printf(
      "\nA planted bug (cli/planted.cc): rows past the end return before the exchanges that add up the "
      "lanes.\n");
  const std::vector<simt::Report> fine = run_planted("simt:musa-mp31"), found = run_planted("simt:musa-mp22");
  std::printf("simt:musa-mp31, where 32 lanes run together: %zu findings.\n", fine.size());
  if (found.empty()) {
    std::printf("simt:musa-mp22: NOT FOUND\n");
    return wrong + 1;
  }
  const simt::Report& r = found.front();
  std::printf(
      "simt:musa-mp22, where 128 do: found in kernel %s, line %d of %s, lane %d of the hardware warp:\n%s\n",
      r.kernel.c_str(), r.line, r.file.c_str(), r.lane, r.text().c_str());
  return wrong + (fine.empty() ? 0 : 1);
}

#else

int tour() { throw Error("tour: this build has no executor (configure with MUSAIC_BUILD_SIMT=ON)"); }

#endif

}  // namespace

void add_tour(CLI::App& app, int& exit_code) {
  app.add_subcommand("tour", "Shows operators, and a bug found, under the rules of Moore Threads GPUs")
      ->callback([&exit_code] { exit_code = tour() == 0 ? 0 : 1; });
}

}  // namespace musaic::cli
