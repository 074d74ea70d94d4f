# NVIDIA GPUs: the operators compiled by nvcc, and the CUDA runtime behind the backend's interface.
option(MUSAIC_CUDA "Build for NVIDIA GPUs (needs nvcc)" OFF)

# musaic_add_cuda_backend(NAME TYPE LAUNCH INCLUDES folder... [DEFINITIONS definition...]): the operators compiled by nvcc
# into the namespace NAME, as the backend for devices of DeviceType::TYPE.
macro(musaic_add_cuda_backend name type launch)
  cmake_parse_arguments(arg "" "" "INCLUDES;DEFINITIONS" ${ARGN})
  if(NOT CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 90-real)
  endif()
  enable_language(CUDA)
  find_package(CUDAToolkit REQUIRED)
  add_library(musaic_${name}_ops OBJECT)
  musaic_op_units(musaic_${name}_ops ${launch} cu row gpu)
  target_include_directories(musaic_${name}_ops PRIVATE ${arg_INCLUDES} ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include
                             ${PROJECT_BINARY_DIR}/include)
  target_compile_definitions(musaic_${name}_ops PRIVATE MUSAIC_TARGET=${name} ${arg_DEFINITIONS})
  # Law 1: one rounding per operation; nvcc contracts unless told not to. Divisions and roots round correctly by default.
  target_compile_options(musaic_${name}_ops PRIVATE
    $<$<COMPILE_LANGUAGE:CUDA>:--fmad=false --expt-relaxed-constexpr -Xcompiler=-ffp-contract=off>)
  set_target_properties(musaic_${name}_ops PROPERTIES CUDA_STANDARD 17 CXX_VISIBILITY_PRESET hidden
                        CUDA_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)

  add_library(musaic_${name}_runtime OBJECT ${PROJECT_SOURCE_DIR}/backends/cuda/runtime.cc)
  target_include_directories(musaic_${name}_runtime PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include
                             ${PROJECT_BINARY_DIR}/include)
  target_include_directories(musaic_${name}_runtime SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
  target_compile_definitions(musaic_${name}_runtime PRIVATE MUSAIC_TARGET=${name} MUSAIC_BACKEND_NAME="${name}")
  target_link_libraries(musaic_${name}_runtime PRIVATE musaic_options)
  set_target_properties(musaic_${name}_runtime PROPERTIES CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)

  musaic_add_backend(${name} ${type})
  target_sources(musaic PRIVATE $<TARGET_OBJECTS:musaic_${name}_ops> $<TARGET_OBJECTS:musaic_${name}_runtime>)
  target_link_libraries(musaic PUBLIC CUDA::cudart_static)
endmacro()

if(MUSAIC_CUDA)
  musaic_add_cuda_backend(cuda kCuda backends/cuda/launch.h INCLUDES ${PROJECT_SOURCE_DIR}/backends/cuda)
endif()
