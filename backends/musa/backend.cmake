# Moore Threads GPUs: the row programs, compiled by mcc as recipe.py and recipe.flags say; and the same sources compiled
# by nvcc through names that map to CUDA's, to run them on NVIDIA GPUs. There is no runtime yet, so the objects of mcc
# are built and checked, and are not part of the library.
option(MUSAIC_MUSA "Compile the kernels for Moore Threads GPUs (needs the MUSA SDK)" OFF)
set(MUSAIC_MUSA_TARGETS "" CACHE STRING "mp_31 and/or mp_22 (default: the environment's MTGPU_TARGET, else mp_31)")
set(MUSAIC_MCC "" CACHE FILEPATH "The MUSA compiler (default: that of the SDK found)")
option(MUSAIC_MUSA_ON_CUDA "Build the MUSA sources as a backend \"musa\" that runs on NVIDIA GPUs (needs nvcc)" OFF)
set(MUSAIC_MUSA_HARDWARE_WARP 32 CACHE STRING "Of MUSAIC_MUSA_ON_CUDA: 32 as mp_31, 128 as mp_22")

set(recipe ${PROJECT_SOURCE_DIR}/backends/musa/recipe.py)

if(MUSAIC_MUSA OR MUSAIC_MUSA_ON_CUDA)
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
endif()

if(MUSAIC_MUSA)
  if(NOT MUSAIC_MCC)
    find_program(mcc mcc HINTS $ENV{MUSA_HOME}/bin $ENV{MUSA_PATH}/bin $ENV{MUSA_INSTALL_PATH}/bin /opt/musa/bin
                 /usr/local/musa/bin NO_DEFAULT_PATH)
    if(NOT mcc)
      message(FATAL_ERROR "MUSAIC_MUSA: no MUSA SDK found: no bin/mcc in $MUSA_HOME, $MUSA_PATH, $MUSA_INSTALL_PATH, "
                          "/opt/musa or /usr/local/musa. Install it, or set MUSAIC_MCC (docs/musa.md).")
    endif()
    set(MUSAIC_MCC ${mcc})
  endif()
  get_filename_component(sdk ${MUSAIC_MCC} DIRECTORY)
  get_filename_component(sdk ${sdk} DIRECTORY)
  if(EXISTS ${sdk}/include/musa_runtime_api.h)
    file(STRINGS ${sdk}/include/musa_runtime_api.h line REGEX "define +MUSART_VERSION +[0-9]+" LIMIT_COUNT 1)
    string(REGEX MATCH "[0-9]+$" version "${line}")
    if(version AND version LESS 40300)
      message(FATAL_ERROR "MUSAIC_MUSA: the SDK in ${sdk} has MUSART_VERSION ${version}; 40300 (SDK 4.3) is the oldest "
                          "that this project's recipe is meant for.")
    endif()
  endif()
  if(NOT MUSAIC_MUSA_TARGETS)
    set(MUSAIC_MUSA_TARGETS mp_31)
    if(NOT "$ENV{MTGPU_TARGET}" STREQUAL "")
      set(MUSAIC_MUSA_TARGETS $ENV{MTGPU_TARGET})
    endif()
  endif()
  set(stamps "")
  file(GLOB parts CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/backends/musa/* ${PROJECT_SOURCE_DIR}/device/*.h
       ${PROJECT_SOURCE_DIR}/device/*.h ${PROJECT_SOURCE_DIR}/ops/*/row.h ${PROJECT_SOURCE_DIR}/ops/*/args.h)
  foreach(target ${MUSAIC_MUSA_TARGETS})
    if(NOT target MATCHES "^mp_(22|31)$")
      message(FATAL_ERROR "MUSAIC_MUSA: target '${target}': mp_31 or mp_22")
    endif()
    set(stamp ${PROJECT_BINARY_DIR}/musa/${target}.stamp)
    add_custom_command(OUTPUT ${stamp} DEPENDS ${parts} VERBATIM
      COMMAND ${Python3_EXECUTABLE} ${recipe} build --mcc ${MUSAIC_MCC} --target ${target} --out ${PROJECT_BINARY_DIR}/musa
              --include ${PROJECT_BINARY_DIR}/include
      COMMAND ${CMAKE_COMMAND} -E touch ${stamp}
      COMMENT "MUSA kernels for ${target}, by ${MUSAIC_MCC}")
    list(APPEND stamps ${stamp})
  endforeach()
  add_custom_target(musaic_musa_kernels ALL DEPENDS ${stamps})
endif()

if(MUSAIC_MUSA_ON_CUDA)
  musaic_add_cuda_backend(musa kMusa backends/musa/launch.h
    INCLUDES ${PROJECT_SOURCE_DIR}/backends/musa/on_cuda ${PROJECT_SOURCE_DIR}/backends/musa
    DEFINITIONS MUSAIC_MUSA_HARDWARE_WARP=${MUSAIC_MUSA_HARDWARE_WARP})
endif()
