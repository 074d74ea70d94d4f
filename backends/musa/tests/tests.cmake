# Tests of the MUSA recipe: no Moore Threads software is needed, and none of them is a MUSA build.
musaic_add_test(test_musa_rounding backends/musa/tests/rounding_test.cc)
target_compile_definitions(test_musa_rounding PRIVATE MUSAIC_TARGET=musa)
target_compile_options(test_musa_rounding PRIVATE -Wno-unknown-pragmas)

find_package(Python3 COMPONENTS Interpreter)
if(Python3_FOUND)
  foreach(name standin static_rules dry_run on_cuda)
    add_test(NAME test_musa_${name} COMMAND ${Python3_EXECUTABLE} -B ${PROJECT_SOURCE_DIR}/backends/musa/tests/test_${name}.py)
    set_tests_properties(test_musa_${name} PROPERTIES SKIP_RETURN_CODE 77)
  endforeach()
else()
  message(STATUS "not run: test_musa_standin, _static_rules, _dry_run, _on_cuda (no Python 3)")
endif()
