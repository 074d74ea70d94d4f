# Fuzz targets of the file reader and the tokenizer.
#   always:                  make_corpus, and <target>_replay as a test, with any compiler
#   -DMUSAIC_BUILD_FUZZERS=ON, Clang: fuzz_gguf and fuzz_tokenizer with libFuzzer, ASan and UBSan; `llm_fuzz` runs each for
#                            MUSAIC_FUZZ_SECONDS
set(MUSAIC_FUZZ_SECONDS 30 CACHE STRING "How long llm_fuzz runs each target")

set(musaic_llm_corpus ${CMAKE_CURRENT_BINARY_DIR}/llm_corpus)
add_executable(llm_make_corpus ${CMAKE_CURRENT_LIST_DIR}/make_corpus.cc)
target_link_libraries(llm_make_corpus PRIVATE musaic_llm_text)
add_test(NAME llm_make_corpus COMMAND llm_make_corpus ${musaic_llm_corpus})
set_tests_properties(llm_make_corpus PROPERTIES FIXTURES_SETUP llm_corpus)

foreach(target gguf tokenizer)
  add_executable(fuzz_${target}_replay
    ${CMAKE_CURRENT_LIST_DIR}/fuzz_${target}.cc ${CMAKE_CURRENT_LIST_DIR}/replay_main.cc)
  target_link_libraries(fuzz_${target}_replay PRIVATE musaic_llm_text)
  add_test(NAME fuzz_${target}_replay COMMAND fuzz_${target}_replay ${musaic_llm_corpus}/${target})
  set_tests_properties(fuzz_${target}_replay PROPERTIES FIXTURES_REQUIRED llm_corpus)
endforeach()

if(MUSAIC_BUILD_FUZZERS)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "MUSAIC_BUILD_FUZZERS needs Clang: set CMAKE_CXX_COMPILER to clang++")
  endif()
  # The library is compiled again, with coverage for the fuzzer in it.
  get_target_property(musaic_llm_text_sources musaic_llm_text SOURCES)
  add_library(musaic_llm_text_fuzz STATIC ${musaic_llm_text_sources})
  target_compile_features(musaic_llm_text_fuzz PUBLIC cxx_std_20)
  target_include_directories(musaic_llm_text_fuzz PUBLIC
    ${CMAKE_CURRENT_LIST_DIR}/../.. ${CMAKE_CURRENT_LIST_DIR}/../../include)
  target_link_libraries(musaic_llm_text_fuzz PUBLIC PkgConfig::PCRE2)
  set(fuzz_flags -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all -O1 -g)
  target_compile_options(musaic_llm_text_fuzz PUBLIC ${fuzz_flags})

  add_custom_target(llm_fuzz
    COMMAND llm_make_corpus ${musaic_llm_corpus})
  foreach(target gguf tokenizer)
    add_executable(fuzz_${target} ${CMAKE_CURRENT_LIST_DIR}/fuzz_${target}.cc)
    target_link_libraries(fuzz_${target} PRIVATE musaic_llm_text_fuzz)
    target_link_options(fuzz_${target} PRIVATE -fsanitize=fuzzer,address,undefined)
    # New inputs go to a directory of their own, crashes to the build directory.
    add_custom_command(TARGET llm_fuzz POST_BUILD
      COMMAND ${CMAKE_COMMAND} -E make_directory ${musaic_llm_corpus}/${target}_found
      COMMAND fuzz_${target} -max_total_time=${MUSAIC_FUZZ_SECONDS} -timeout=20 -rss_limit_mb=2048
              -malloc_limit_mb=256 -max_len=16384 -print_final_stats=1
              ${musaic_llm_corpus}/${target}_found ${musaic_llm_corpus}/${target}
      WORKING_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR} USES_TERMINAL)
  endforeach()
endif()
