# NVIDIA GPUs: the row programs, compiled as they are, and the program that compares their bytes with the CPU's.
option(MUSAIC_CUDA_ROW_BITS "Build cuda_row_bits, which compares row operators between CPU and GPU (needs nvcc)" OFF)
if(MUSAIC_CUDA_ROW_BITS)
  include(${CMAKE_CURRENT_LIST_DIR}/row_bits.cmake)
  set(units "")
  foreach(folder ${MUSAIC_OP_FOLDERS})
    if(EXISTS ${PROJECT_SOURCE_DIR}/ops/${folder}/row.h)
      file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/cuda/${folder}.cu CONTENT
           "#include \"backends/cuda/launch.h\"\n#include \"ops/${folder}/row.h\"\n" @ONLY)
      list(APPEND units ${PROJECT_BINARY_DIR}/cuda/${folder}.cu)
    endif()
  endforeach()
  musaic_add_row_bits(cuda_row_bits NAMESPACE cuda LAUNCH backends/cuda/launch.h UNITS ${units}
                      INCLUDES ${PROJECT_SOURCE_DIR}/backends/cuda)
endif()
