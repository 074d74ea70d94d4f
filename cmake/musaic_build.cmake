# What every target of the project is built with, and how the one list of operators is read.

add_library(musaic_options INTERFACE)
target_compile_options(musaic_options INTERFACE -Wall -Wextra -Wconversion -Wshadow -Wnon-virtual-dtor -Wcast-qual
                       # Law 1: one rounding per operation, in every build; errno and traps are not used.
                       -ffp-contract=off -fno-math-errno -fno-trapping-math)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(musaic_options INTERFACE -Wno-restrict)  # false alarms on std::string (gcc bug 105651)
endif()
if(MUSAIC_WERROR)
  target_compile_options(musaic_options INTERFACE -Werror)
endif()
if(MUSAIC_SANITIZE)
  add_compile_options(-fsanitize=${MUSAIC_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${MUSAIC_SANITIZE})
endif()

# Reads MUSAIC_OP(name, Args, folder, "schema") lines into MUSAIC_OPS and MUSAIC_OP_FOLDERS.
macro(musaic_read_list path)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${path})
  file(STRINGS ${PROJECT_SOURCE_DIR}/${path} lines REGEX "^MUSAIC_OP\\(")
  set(MUSAIC_OPS "")
  set(MUSAIC_OP_FOLDERS "")
  foreach(line IN LISTS lines)
    string(REGEX MATCH "^MUSAIC_OP\\(([a-z0-9_]+), [A-Za-z0-9]+, ([a-z0-9_]+)" _ "${line}")
    list(APPEND MUSAIC_OPS ${CMAKE_MATCH_1})
    list(APPEND MUSAIC_OP_FOLDERS ${CMAKE_MATCH_2})
  endforeach()
  list(REMOVE_DUPLICATES MUSAIC_OP_FOLDERS)
endmacro()

# The public headers of the operators live in their folders; <musaic/ops/NAME.h> and the umbrella <musaic/ops.h> are
# made from the list.
function(musaic_generate_headers)
  set(umbrella "// Every operator. Generated from ops/list.inc.\n#pragma once\n\n")
  foreach(folder ${MUSAIC_OP_FOLDERS})
    configure_file(ops/${folder}/${folder}.h include/musaic/ops/${folder}.h COPYONLY)
    string(APPEND umbrella "#include \"musaic/ops/${folder}.h\"\n")
  endforeach()
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/include/musaic/ops.h CONTENT "${umbrella}" @ONLY)
endfunction()

# musaic_add_backend(NAMESPACE TYPE): the devices of DeviceType::TYPE are served by musaic::NAMESPACE::entry().
set(MUSAIC_BACKENDS "")
macro(musaic_add_backend namespace type)
  string(APPEND MUSAIC_BACKENDS "MUSAIC_BACKEND(${namespace}, ${type})\n")
endmacro()

# musaic_op_units(TARGET LAUNCH EXTENSION FORM...): gives an object library the operators of a backend: a unit for each folder
# of ops/ that has FORM.h, compiled after the backend's header LAUNCH, or FORM.cc as it is; and the table of them.
function(musaic_op_units target launch extension)
  get_filename_component(backend ${launch} DIRECTORY)
  get_filename_component(backend ${backend} NAME)
  foreach(folder ${MUSAIC_OP_FOLDERS})
    set(has 0)
    foreach(form ${ARGN})
      if(EXISTS ${PROJECT_SOURCE_DIR}/ops/${folder}/${form}.h)
        set(unit ${PROJECT_BINARY_DIR}/${backend}/${folder}.${extension})
        file(CONFIGURE OUTPUT ${unit} CONTENT "#include \"${launch}\"\n#include \"ops/${folder}/${form}.h\"\n" @ONLY)
      elseif(EXISTS ${PROJECT_SOURCE_DIR}/ops/${folder}/${form}.cc)
        set(unit ${PROJECT_SOURCE_DIR}/ops/${folder}/${form}.cc)
      else()
        continue()
      endif()
      set(has 1)
      target_sources(${target} PRIVATE ${unit})
    endforeach()
    target_compile_definitions(${target} PRIVATE MUSAIC_HAS_${folder}=${has})
  endforeach()
  target_sources(${target} PRIVATE ${PROJECT_SOURCE_DIR}/backends/table.cc)
endfunction()
