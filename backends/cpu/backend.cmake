# The CPU backend: every operator once per instruction set, in a namespace of its own.

if(NOT MUSAIC_CPU_PATHS)
  set(MUSAIC_CPU_PATHS baseline)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    list(APPEND MUSAIC_CPU_PATHS v3 v4)
  endif()
endif()

target_sources(musaic PRIVATE backends/cpu/pool.cc backends/cpu/runtime.cc)
foreach(path ${MUSAIC_CPU_PATHS})
  set(flags "")
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    if(path STREQUAL baseline)
      # The path that runs anywhere need not be fast; -O3 would double the compile time of its emulated vectors.
      set(flags -march=x86-64 $<$<CONFIG:Release>:-O2>)
    else()
      set(flags -march=x86-64-${path})
    endif()
  endif()
  add_library(musaic_cpu_${path} OBJECT)
  musaic_op_units(musaic_cpu_${path} backends/cpu/launch.h cc row cpu)
  target_include_directories(musaic_cpu_${path} PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/backends/cpu
                             ${PROJECT_SOURCE_DIR}/include ${PROJECT_BINARY_DIR}/include)
  target_compile_definitions(musaic_cpu_${path} PRIVATE MUSAIC_TARGET=cpu_${path})
  # Vectors of eight are passed between inlined functions only, so the calling convention that gcc warns of is unused.
  target_compile_options(musaic_cpu_${path} PRIVATE ${flags} -Wno-psabi)
  if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    target_compile_options(musaic_cpu_${path} PRIVATE -Wno-missing-braces)
  endif()
  target_link_libraries(musaic_cpu_${path} PRIVATE musaic_options)
  # A shared library exports the operators, not the kernels.
  set_target_properties(musaic_cpu_${path} PROPERTIES CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  target_sources(musaic PRIVATE $<TARGET_OBJECTS:musaic_cpu_${path}>)
  string(TOUPPER ${path} upper)
  set_property(SOURCE backends/cpu/runtime.cc APPEND PROPERTY COMPILE_DEFINITIONS MUSAIC_HAS_CPU_${upper})
endforeach()
