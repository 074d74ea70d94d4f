#One test program per operator folder, and the others that folders add to musaic_add_test.
find_package(GTest REQUIRED)

add_library(musaic_testing testing/number.cc testing/testing.cc testing/main.cc)
target_link_libraries(musaic_testing PUBLIC musaic GTest::gtest PRIVATE musaic_options)
target_include_directories(musaic_testing PUBLIC ${PROJECT_SOURCE_DIR})
if(MUSAIC_BUILD_SIMT)
  target_compile_definitions(musaic_testing PRIVATE MUSAIC_HAS_SIMT)
endif()

function(musaic_add_test name)
  add_executable(${name} ${ARGN})
  target_link_libraries(${name} PRIVATE musaic_testing musaic_options)
  add_test(NAME ${name} COMMAND ${name})
endfunction()

foreach(folder ${MUSAIC_OP_FOLDERS})
  musaic_add_test(test_${folder} ops/${folder}/test.cc)
  if(NOT EXISTS ${PROJECT_SOURCE_DIR}/ops/${folder}/row.h AND NOT EXISTS ${PROJECT_SOURCE_DIR}/ops/${folder}/gpu.h)
    target_sources(test_${folder} PRIVATE testing/cpu_only.cc)
  endif()
#Half the time to compile; the kernels under test keep their optimisation.
  target_compile_options(test_${folder} PRIVATE $<$<CONFIG:Release>:-O1>)
endforeach()
musaic_add_test(test_core core/test.cc)

# The elementary functions on every backend, byte against byte: compiled as each backend's operators are.
musaic_add_test(test_math testing/math_test.cc)
musaic_backend_units(test_math math ROWS testing/math_rows.h)

#device / is tested once per instruction set that this machine has.
file(STRINGS /proc/cpuinfo processor REGEX "^flags" LIMIT_COUNT 1)
foreach(path ${MUSAIC_CPU_PATHS})
  if((path STREQUAL v3 AND NOT processor MATCHES " avx2 ") OR (path STREQUAL v4 AND NOT processor MATCHES " avx512vl "))
    message(STATUS "not run: test_device_${path} (this processor lacks x86-64-${path})")
    continue()
  endif()
  musaic_add_test(test_device_${path} device/test.cc)
  target_include_directories(test_device_${path} PRIVATE backends/cpu)
  target_compile_definitions(test_device_${path} PRIVATE MUSAIC_TARGET=cpu_${path})
  get_target_property(flags musaic_cpu_${path} COMPILE_OPTIONS)
  target_compile_options(test_device_${path} PRIVATE ${flags})
endforeach()

file(GLOB backend_tests CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/backends/*/tests/tests.cmake)
foreach(tests ${backend_tests})
  include(${tests})
endforeach()

if(MUSAIC_BUILD_CLI)
  include(llm/tests/tests.cmake)
  include(cli/tests/tests.cmake)
endif()
