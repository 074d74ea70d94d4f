# The SIMT executor: GPU kernels on the CPU, checked; and the operators on it.
option(MUSAIC_BUILD_SIMT "Build the SIMT executor (runs GPU kernels on the CPU, with checks)" ${PROJECT_IS_TOP_LEVEL})
option(MUSAIC_SIMT_UCONTEXT "Switch fibers by ucontext on x86-64 too (slower; for testing the fallback)" OFF)

if(MUSAIC_BUILD_SIMT)
  add_library(musaic_simt OBJECT)
  foreach(unit access collective device fiber hooks intrinsic knowledge launch memory options order order_check report scheduler
               slots store_buffer stream symbol)
    target_sources(musaic_simt PRIVATE backends/simt/${unit}.cc)
  endforeach()
  target_include_directories(musaic_simt PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)
  target_compile_features(musaic_simt PUBLIC cxx_std_20)
  target_link_libraries(musaic_simt PRIVATE musaic_options)
  # The functions that a sanitizer would give a program are the library's own affair.
  set_target_properties(musaic_simt PROPERTIES CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  target_sources(musaic PRIVATE $<TARGET_OBJECTS:musaic_simt>)
  target_link_libraries(musaic PUBLIC ${CMAKE_DL_LIBS})
  if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    target_link_options(musaic INTERFACE -Wl,--wrap=memcpy,--wrap=memmove,--wrap=memset)
  endif()
  if(MUSAIC_SIMT_UCONTEXT)
    target_compile_definitions(musaic_simt PUBLIC MUSAIC_SIMT_UCONTEXT)
  endif()
  # Lines of source for the reports: gcc's libbacktrace where it is installed, else the program addr2line.
  execute_process(COMMAND gcc -print-file-name=libbacktrace.a OUTPUT_VARIABLE backtrace_library
                  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(EXISTS "${backtrace_library}")
    target_link_libraries(musaic PUBLIC $<BUILD_INTERFACE:-Wl,-u,backtrace_create_state,-u,backtrace_pcinfo>
                                        $<BUILD_INTERFACE:${backtrace_library}>)
  endif()

  # How units with kernels are compiled: gcc's and clang's thread sanitizer calls a function before every access;
  # the functions are the executor's (hooks.cc), no sanitizer runtime is linked.
  add_library(musaic_simt_kernels INTERFACE)
  target_include_directories(musaic_simt_kernels INTERFACE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)
  target_compile_features(musaic_simt_kernels INTERFACE cxx_std_20)
  target_compile_options(musaic_simt_kernels INTERFACE -O1 -g1 -fno-omit-frame-pointer -fsanitize=thread,bounds
                         -ffp-contract=off -Wno-unknown-pragmas)
  if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    target_compile_options(musaic_simt_kernels INTERFACE -fsanitize=alignment
                           "SHELL:-mllvm -tsan-distinguish-volatile" "SHELL:-mllvm -tsan-instrument-func-entry-exit=0")
  else()
    target_compile_options(musaic_simt_kernels INTERFACE --param=tsan-distinguish-volatile=1 -Wno-tsan)
    if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
      # gcc copies small blocks in place, unseen by the checks, unless told to call memcpy.
      target_compile_options(musaic_simt_kernels INTERFACE -mmemcpy-strategy=libcall:-1:noalign
                             -mmemset-strategy=libcall:-1:noalign)
    endif()
  endif()

  # The operators: row.h by the shared row kernel, gpu.h as it is. One unit an operator folder.
  add_library(musaic_simt_ops OBJECT)
  musaic_op_units(musaic_simt_ops backends/simt/op_launch.h cc row gpu)
  target_include_directories(musaic_simt_ops PRIVATE ${PROJECT_SOURCE_DIR}/backends/simt ${PROJECT_BINARY_DIR}/include)
  target_compile_definitions(musaic_simt_ops PRIVATE MUSAIC_TARGET=simt_ops)
  target_link_libraries(musaic_simt_ops PRIVATE musaic_simt_kernels musaic_options)
  set_target_properties(musaic_simt_ops PROPERTIES CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  musaic_add_backend(simt kSimt)
  target_sources(musaic PRIVATE backends/simt/backend.cc $<TARGET_OBJECTS:musaic_simt_ops>)
endif()
