// The arithmetic that the library relies on, as row programs: one unit a backend.
#pragma once

#include "cli/check/probe_args.h"
#include "device/device.h"

namespace musaic::MUSAIC_TARGET {

template <RowProbe kProbe, class In, class Out>
struct ProbePart {
  static constexpr std::int64_t kElements = 1024;
  RowProbeArgs a;

  template <class Group>
  MUSAIC_FN void operator()(Group& group, std::int64_t part) const {
    const std::int64_t begin = part * kElements, left = a.count - begin;
    const In* in = static_cast<const In*>(a.a) + begin;
    Out* out = static_cast<Out*>(a.out) + begin;
    group.each(left < kElements ? left : kElements, [&](auto c) {
      const F32x8 x = c.load(in);
      if constexpr (kProbe == RowProbe::kRoot) {
        c.store(out, sqrt(x));
      } else if constexpr (kProbe <= RowProbe::kQuotient) {
        const F32x8 y = c.load(static_cast<const float*>(a.b) + begin),
                    z = c.load(static_cast<const float*>(a.c) + begin);
        if constexpr (kProbe == RowProbe::kFma)
          c.store(out, fma(x, y, z));
        else if constexpr (kProbe == RowProbe::kProductAndSum)
          c.store(out, x * y + z);
        else if constexpr (kProbe == RowProbe::kProduct)
          c.store(out, x * y);
        else
          c.store(out, div(x, y));
      } else {
        c.store(out, x);
      }
    });
  }
};

template <RowProbe kProbe, class In = float, class Out = float>
void launch_probe(const RowProbeArgs& a, Stream stream) {
  using Part = ProbePart<kProbe, In, Out>;
  launch_rows(stream, (a.count + Part::kElements - 1) / Part::kElements, 4 * Part::kElements, Part{a});
}

void probe_rows(const RowProbeArgs& a, Stream stream) {
  switch (a.probe) {
    case RowProbe::kFma:
      return launch_probe<RowProbe::kFma>(a, stream);
    case RowProbe::kProductAndSum:
      return launch_probe<RowProbe::kProductAndSum>(a, stream);
    case RowProbe::kProduct:
      return launch_probe<RowProbe::kProduct>(a, stream);
    case RowProbe::kQuotient:
      return launch_probe<RowProbe::kQuotient>(a, stream);
    case RowProbe::kRoot:
      return launch_probe<RowProbe::kRoot>(a, stream);
    case RowProbe::kWidenHalf:
      return launch_probe<RowProbe::kWidenHalf, Half, float>(a, stream);
    case RowProbe::kNarrowHalf:
      return launch_probe<RowProbe::kNarrowHalf, float, Half>(a, stream);
    case RowProbe::kWidenBFloat16:
      return launch_probe<RowProbe::kWidenBFloat16, BFloat16, float>(a, stream);
    case RowProbe::kNarrowBFloat16:
      return launch_probe<RowProbe::kNarrowBFloat16, float, BFloat16>(a, stream);
  }
}

}  // namespace musaic::MUSAIC_TARGET
