# The program musaic.
find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)

add_executable(musaic_program
  cli/main.cc cli/bandwidth.cc cli/bench.cc cli/bench_generate.cc cli/bench_page.cc cli/check.cc cli/devices.cc cli/generate.cc
  cli/info.cc cli/list.cc cli/logits.cc cli/model_options.cc cli/report.cc cli/terminal.cc cli/tiny_model.cc
  cli/tour.cc)
if(MUSAIC_BUILD_SIMT)
  target_compile_definitions(musaic_program PRIVATE MUSAIC_HAS_SIMT)
  # The kernel with a mistake that the tour finds.
  add_library(musaic_planted OBJECT cli/planted.cc)
  target_link_libraries(musaic_planted PRIVATE musaic_simt_kernels musaic_options)
  target_sources(musaic_program PRIVATE $<TARGET_OBJECTS:musaic_planted>)
endif()
set_target_properties(musaic_program PROPERTIES OUTPUT_NAME musaic)
target_link_libraries(musaic_program PRIVATE musaic_checks musaic_llm CLI11::CLI11 nlohmann_json::nlohmann_json
                      musaic_options)

# The cases of `musaic check`: ops/FOLDER/check.cc defines musaic::checks::FOLDER_cases(); the calls of `musaic bench`:
# timing.cc defines FOLDER_timings().
add_library(musaic_checks STATIC cli/check/check.cc cli/check/probes.cc testing/number.cc)
set(folders "")
set(timed "")
foreach(folder ${MUSAIC_OP_FOLDERS})
  if(EXISTS ${PROJECT_SOURCE_DIR}/ops/${folder}/check.cc)
    target_sources(musaic_checks PRIVATE ops/${folder}/check.cc)
    string(APPEND folders "MUSAIC_CHECKED_FOLDER(${folder})\n")
  else()
    string(APPEND folders "MUSAIC_UNCHECKED_FOLDER(${folder})\n")
  endif()
  if(EXISTS ${PROJECT_SOURCE_DIR}/ops/${folder}/timing.cc)
    target_sources(musaic_checks PRIVATE ops/${folder}/timing.cc)
    string(APPEND timed "MUSAIC_TIMED_FOLDER(${folder})\n")
  endif()
endforeach()
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/cli/check_folders.inc CONTENT "${folders}" @ONLY)
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/cli/timing_folders.inc CONTENT "${timed}" @ONLY)
target_include_directories(musaic_checks PUBLIC ${PROJECT_SOURCE_DIR} PRIVATE ${PROJECT_BINARY_DIR}/cli)
target_link_libraries(musaic_checks PUBLIC musaic PRIVATE musaic_options)
musaic_backend_units(musaic_checks probe ROWS cli/check/probe_rows.h GPU cli/check/probe_gpu.h)
