#include "cli/devices.h"

#include "musaic/device.h"

#if defined(MUSAIC_HAS_SIMT)
#include "backends/simt/device.h"
#endif

namespace musaic::cli {

std::vector<std::string> every_device() {
  std::vector<std::string> names;
  for (const DeviceType type : device_types())
    if (type != DeviceType::kSimt)
      for (int i = 0; i < device_count(type); ++i)
        names.push_back(type == DeviceType::kCpu ? "cpu" : to_string(Device{type, i}));
#if defined(MUSAIC_HAS_SIMT)
  for (const simt::DeviceRecord* t = simt::targets(); t->name != nullptr; ++t) names.emplace_back(t->name);
#endif
  return names;
}

}  // namespace musaic::cli
