// The devices that the program can name.
#pragma once

#include <string>
#include <vector>

namespace musaic::cli {

/// Names for find_device: the machine's devices, the CPU first, then the simulated targets of this build.
std::vector<std::string> every_device();

}  // namespace musaic::cli
