# The program, run as a user runs it.
add_executable(test_cli ${CMAKE_CURRENT_LIST_DIR}/cli_test.cc)
target_compile_definitions(test_cli PRIVATE MUSAIC_PROGRAM="$<TARGET_FILE:musaic_program>"
                           MUSAIC_SANITIZERS="${MUSAIC_SANITIZE}")
if(MUSAIC_BUILD_SIMT)
  target_compile_definitions(test_cli PRIVATE MUSAIC_HAS_SIMT)
endif()
target_link_libraries(test_cli PRIVATE musaic nlohmann_json::nlohmann_json GTest::gtest_main musaic_options)
add_dependencies(test_cli musaic_program)
add_test(NAME test_cli COMMAND test_cli)

# That `musaic check` finds what is wrong.
add_executable(test_checks ${CMAKE_CURRENT_LIST_DIR}/checks_test.cc)
target_link_libraries(test_checks PRIVATE musaic_checks GTest::gtest_main musaic_options)
add_test(NAME test_checks COMMAND test_checks)
if(MUSAIC_BUILD_SIMT)
  target_compile_definitions(test_checks PRIVATE MUSAIC_HAS_SIMT)
endif()
