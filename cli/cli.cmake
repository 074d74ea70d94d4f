# The program musaic.
find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)

add_executable(musaic_program
  cli/main.cc cli/bandwidth.cc cli/bench_generate.cc cli/generate.cc cli/info.cc cli/list.cc cli/logits.cc
  cli/model_options.cc cli/report.cc cli/terminal.cc cli/tiny_model.cc)
set_target_properties(musaic_program PROPERTIES OUTPUT_NAME musaic)
target_link_libraries(musaic_program PRIVATE musaic_llm CLI11::CLI11 nlohmann_json::nlohmann_json musaic_options)
