# One benchmark program per operator folder.
find_package(benchmark REQUIRED)

add_library(musaic_benching bench/bench.cc)
target_link_libraries(musaic_benching PUBLIC musaic benchmark::benchmark PRIVATE musaic_options)
target_include_directories(musaic_benching PUBLIC ${PROJECT_SOURCE_DIR})

foreach(folder ${MUSAIC_OP_FOLDERS})
  add_executable(bench_${folder} ops/${folder}/bench.cc)
  target_link_libraries(bench_${folder} PRIVATE musaic_benching musaic_options)
endforeach()
