# The runner: a llama's forward pass and what turns it into text, on the operators of include/musaic.
include(${CMAKE_CURRENT_LIST_DIR}/reader.cmake)

add_library(musaic_llm STATIC
  llm/cache.cc llm/config.cc llm/generate.cc llm/model.cc llm/runner.cc llm/sampler.cc llm/staging.cc
  llm/stop.cc llm/tiny.cc)
target_link_libraries(musaic_llm PUBLIC musaic_llm_text musaic PRIVATE musaic_options)
