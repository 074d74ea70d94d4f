# What `cmake --install` puts in place: headers, library, the CMake package, the pkg-config file, the program if built.
option(MUSAIC_INSTALL "Make the install rules" ${PROJECT_IS_TOP_LEVEL})
if(NOT MUSAIC_INSTALL)
  return()
endif()
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/musaic)
install(TARGETS musaic EXPORT musaicTargets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
        RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY include/musaic ${PROJECT_BINARY_DIR}/include/musaic DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN "*.h")
install(FILES LICENSE NOTICE THIRD_PARTY_NOTICES DESTINATION ${CMAKE_INSTALL_DOCDIR})
if(TARGET musaic_program)
  install(TARGETS musaic_program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

install(EXPORT musaicTargets NAMESPACE musaic:: DESTINATION ${package_dir})
configure_package_config_file(cmake/musaicConfig.cmake.in musaicConfig.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(musaicConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/musaicConfig.cmake ${PROJECT_BINARY_DIR}/musaicConfigVersion.cmake
        DESTINATION ${package_dir})

# The package may be moved: pkg-config finds the prefix from the place of the file.
file(RELATIVE_PATH prefix_from_pc /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" prefix_from_pc "${prefix_from_pc}")
configure_file(cmake/musaic.pc.in musaic.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/musaic.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
