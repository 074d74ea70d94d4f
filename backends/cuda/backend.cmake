# NVIDIA GPUs: the row programs, compiled as they are, and the program that compares their bytes with the CPU's.
option(MUSAIC_CUDA_ROW_BITS "Build cuda_row_bits, which compares row operators between CPU and GPU (needs nvcc)" OFF)
if(NOT MUSAIC_CUDA_ROW_BITS)
  return()
endif()

if(NOT CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 90-real)
endif()
enable_language(CUDA)
find_package(CUDAToolkit REQUIRED)

# Law 1: one rounding per operation; nvcc contracts unless told not to. Divisions and roots round correctly by default.
set(flags --fmad=false --expt-relaxed-constexpr -Xcompiler=-ffp-contract=off)

set(units "")
foreach(folder ${MUSAIC_OP_FOLDERS})
  if(EXISTS ${PROJECT_SOURCE_DIR}/ops/${folder}/row.h)
    file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/cuda/${folder}.cu CONTENT
         "#include \"backends/cuda/launch.h\"\n#include \"ops/${folder}/row.h\"\n" @ONLY)
    list(APPEND units ${PROJECT_BINARY_DIR}/cuda/${folder}.cu)
  endif()
endforeach()
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/cuda/math_rows.cu CONTENT
     "#include \"backends/cuda/launch.h\"\n#include \"testing/math_rows.h\"\n" @ONLY)
add_library(musaic_cuda_rows OBJECT ${units} ${PROJECT_BINARY_DIR}/cuda/math_rows.cu backends/cuda/table.cc)
target_include_directories(musaic_cuda_rows PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/backends/cuda
                           ${PROJECT_SOURCE_DIR}/include ${PROJECT_BINARY_DIR}/include)
target_compile_definitions(musaic_cuda_rows PRIVATE MUSAIC_TARGET=cuda)
target_compile_options(musaic_cuda_rows PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:${flags}>)
set_target_properties(musaic_cuda_rows PROPERTIES CUDA_STANDARD 17)

add_executable(cuda_row_bits backends/cuda/row_bits.cc $<TARGET_OBJECTS:musaic_cuda_rows>)
target_link_libraries(cuda_row_bits PRIVATE musaic CUDA::cudart_static musaic_options)
target_include_directories(cuda_row_bits SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
target_include_directories(cuda_row_bits PRIVATE ${PROJECT_SOURCE_DIR})
target_compile_definitions(cuda_row_bits PRIVATE MUSAIC_TARGET=cuda)
foreach(path ${MUSAIC_CPU_PATHS})
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/cpu/math_rows.cc CONTENT
       "#include \"backends/cpu/launch.h\"\n#include \"testing/math_rows.h\"\n" @ONLY)
  add_library(cuda_row_bits_math_${path} OBJECT ${PROJECT_BINARY_DIR}/cpu/math_rows.cc)
  foreach(property COMPILE_OPTIONS COMPILE_DEFINITIONS INCLUDE_DIRECTORIES LINK_LIBRARIES)
    get_target_property(value musaic_cpu_${path} ${property})
    set_property(TARGET cuda_row_bits_math_${path} PROPERTY ${property} ${value})
  endforeach()
  target_sources(cuda_row_bits PRIVATE $<TARGET_OBJECTS:cuda_row_bits_math_${path}>)
  string(TOUPPER ${path} upper)
  target_compile_definitions(cuda_row_bits PRIVATE MUSAIC_HAS_CPU_${upper})
endforeach()
