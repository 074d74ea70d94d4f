// MUSAIC_LAUNCH on the host: a launch is recorded with its arguments and runs when someone waits for it.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <tuple>
#include <utility>

#include "backends/simt/intrinsic.h"
#include "backends/simt/stream.h"

namespace musaic::simt {

struct Launch {
  const char* kernel;
  const char* unit;  // the file that was compiled
  dim3 grid, block;
  std::int64_t dynamic_shared_bytes;
  void (*entry)(const void* arguments);
  std::shared_ptr<const void> arguments;
  std::size_t argument_bytes;
  Feature feature;
};
/// Checks the launch against the target's limits, then enqueues it. A launch beyond them becomes a finding
/// and does not run.
void enqueue(Stream stream, Launch launch);

/// Which number formats the types of a kernel's arguments name. Specialised by the number types.
template <class T>
inline constexpr Feature kFeatureOf = Feature::kNone;
template <class T>
inline constexpr Feature kFeatureOf<T*> = kFeatureOf<std::remove_cv_t<T>>;
template <template <class...> class C, class... A>
inline constexpr Feature kFeatureOf<C<A...>> = [] {
  Feature found = Feature::kNone;
  ((found = kFeatureOf<A> > found ? kFeatureOf<A> : found), ...);
  return found;
}();

template <class... P, class... A>
void launch(const char* name, const char* unit, void (*kernel)(P...), dim3 grid, dim3 block,
            std::size_t dynamic_shared_bytes, Stream stream, A&&... arguments) {
  using Tuple = std::tuple<void (*)(P...), std::decay_t<P>...>;
  Feature feature = Feature::kNone;
  ((feature = kFeatureOf<std::decay_t<P>> > feature ? kFeatureOf<std::decay_t<P>> : feature), ...);
  enqueue(stream, {name, unit, grid, block, static_cast<std::int64_t>(dynamic_shared_bytes),
                   [](const void* packed) {
                     std::apply([](auto f, const auto&... a) { f(a...); },
                                *static_cast<const Tuple*>(packed));
                   },
                   std::make_shared<const Tuple>(kernel, static_cast<P>(std::forward<A>(arguments))...),
                   (std::size_t{0} + ... + sizeof(std::decay_t<P>)), feature});
}

}  // namespace musaic::simt

/// kernel<<<grid, block, shared_bytes, stream>>>(arguments...). Put a kernel with commas in its template
/// arguments in parentheses.
#define MUSAIC_LAUNCH(kernel, grid, block, shared_bytes, stream, ...)               \
  ::musaic::simt::launch(#kernel, __BASE_FILE__, kernel, grid, block, shared_bytes, \
                         stream __VA_OPT__(, ) __VA_ARGS__)
