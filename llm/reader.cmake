# The text half of the runner: GGUF files, tokenizer, chat format.
find_package(PkgConfig REQUIRED)
pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8)

add_library(musaic_llm_text STATIC
  ${CMAKE_CURRENT_LIST_DIR}/chat.cc
  ${CMAKE_CURRENT_LIST_DIR}/gguf.cc
  ${CMAKE_CURRENT_LIST_DIR}/mapping.cc
  ${CMAKE_CURRENT_LIST_DIR}/tokenizer.cc
  ${CMAKE_CURRENT_LIST_DIR}/utf8.cc)
target_compile_features(musaic_llm_text PUBLIC cxx_std_20)
target_include_directories(musaic_llm_text PUBLIC
  ${CMAKE_CURRENT_LIST_DIR}/..
  ${CMAKE_CURRENT_LIST_DIR}/../include)
target_link_libraries(musaic_llm_text PRIVATE PkgConfig::PCRE2 musaic_options)
