# musaic_add_row_bits(NAME NAMESPACE ns LAUNCH header UNITS file... INCLUDES folder... [DEFINITIONS definition...])
# adds the program NAME, which compares the row operators of the units, compiled by nvcc into the namespace, with the CPU.
include_guard(GLOBAL)

if(NOT CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 90-real)
endif()
enable_language(CUDA)
find_package(CUDAToolkit REQUIRED)

# The elementary functions, which it compares as well.
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/cpu/math_rows.cc CONTENT
     "#include \"backends/cpu/launch.h\"\n#include \"testing/math_rows.h\"\n" @ONLY)
foreach(path ${MUSAIC_CPU_PATHS})
  add_library(row_bits_math_${path} OBJECT ${PROJECT_BINARY_DIR}/cpu/math_rows.cc)
  foreach(property COMPILE_OPTIONS COMPILE_DEFINITIONS INCLUDE_DIRECTORIES LINK_LIBRARIES)
    get_target_property(value musaic_cpu_${path} ${property})
    set_property(TARGET row_bits_math_${path} PROPERTY ${property} ${value})
  endforeach()
endforeach()

function(musaic_add_row_bits name)
  cmake_parse_arguments(arg "" "NAMESPACE;LAUNCH" "UNITS;INCLUDES;DEFINITIONS" ${ARGN})
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/row_bits/${name}_math_rows.cu CONTENT
       "#include \"@arg_LAUNCH@\"\n#include \"testing/math_rows.h\"\n" @ONLY)
  add_library(${name}_kernels OBJECT ${arg_UNITS} ${PROJECT_BINARY_DIR}/row_bits/${name}_math_rows.cu
              ${PROJECT_SOURCE_DIR}/backends/gpu_table.cc)
  target_include_directories(${name}_kernels PRIVATE ${arg_INCLUDES} ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include
                             ${PROJECT_BINARY_DIR}/include)
  target_compile_definitions(${name}_kernels PRIVATE MUSAIC_TARGET=${arg_NAMESPACE} ${arg_DEFINITIONS})
  # Law 1: one rounding per operation; nvcc contracts unless told not to. Divisions and roots round correctly by default.
  target_compile_options(${name}_kernels PRIVATE
    $<$<COMPILE_LANGUAGE:CUDA>:--fmad=false --expt-relaxed-constexpr -Xcompiler=-ffp-contract=off>)
  set_target_properties(${name}_kernels PROPERTIES CUDA_STANDARD 17)

  add_executable(${name} ${PROJECT_SOURCE_DIR}/backends/cuda/row_bits.cc $<TARGET_OBJECTS:${name}_kernels>)
  target_link_libraries(${name} PRIVATE musaic CUDA::cudart_static musaic_options)
  target_include_directories(${name} SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_compile_definitions(${name} PRIVATE MUSAIC_TARGET=${arg_NAMESPACE})
  foreach(path ${MUSAIC_CPU_PATHS})
    target_sources(${name} PRIVATE $<TARGET_OBJECTS:row_bits_math_${path}>)
    string(TOUPPER ${path} upper)
    target_compile_definitions(${name} PRIVATE MUSAIC_HAS_CPU_${upper})
  endforeach()
endfunction()
