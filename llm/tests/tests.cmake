# Tests of GGUF files, tokenizer and chat format.
include(GoogleTest)

add_executable(llm_text_test
  ${CMAKE_CURRENT_LIST_DIR}/chat_test.cc
  ${CMAKE_CURRENT_LIST_DIR}/gguf_test.cc
  ${CMAKE_CURRENT_LIST_DIR}/mapping_test.cc
  ${CMAKE_CURRENT_LIST_DIR}/tokenizer_golden_test.cc
  ${CMAKE_CURRENT_LIST_DIR}/tokenizer_test.cc
  ${CMAKE_CURRENT_LIST_DIR}/utf8_test.cc)
target_compile_definitions(llm_text_test PRIVATE MUSAIC_TEST_DATA="${CMAKE_CURRENT_LIST_DIR}/data")
target_link_libraries(llm_text_test PRIVATE musaic_llm_text GTest::gtest_main)
gtest_discover_tests(llm_text_test DISCOVERY_TIMEOUT 60)

# The runner.
musaic_add_test(test_llm_model ${CMAKE_CURRENT_LIST_DIR}/cache_test.cc ${CMAKE_CURRENT_LIST_DIR}/generate_test.cc
  ${CMAKE_CURRENT_LIST_DIR}/model_test.cc ${CMAKE_CURRENT_LIST_DIR}/stop_test.cc)
target_link_libraries(test_llm_model PRIVATE musaic_llm)
if(MUSAIC_BUILD_SIMT)
  target_compile_definitions(test_llm_model PRIVATE MUSAIC_HAS_SIMT)
endif()
