// Semantic version of the library; CMake reads it from here.
#pragma once

#define MUSAIC_VERSION_MAJOR 0
#define MUSAIC_VERSION_MINOR 1
#define MUSAIC_VERSION_PATCH 0
#define MUSAIC_VERSION "0.1.0"
