# What goes into the wheel, relative to site-packages. No links: a wheel cannot hold them.
set_property(TARGET musaic PROPERTY VERSION)
set_property(TARGET musaic PROPERTY SOVERSION)
install(TARGETS musaic LIBRARY DESTINATION musaic/lib)
install(DIRECTORY include/musaic ${PROJECT_BINARY_DIR}/include/musaic DESTINATION musaic/include FILES_MATCHING PATTERN "*.h")
install(DIRECTORY bindings/torch DESTINATION musaic/share/bindings
        FILES_MATCHING PATTERN "*.h" PATTERN "*.cc" PATTERN "*.inc" PATTERN "tests" EXCLUDE)
install(FILES ops/list.inc DESTINATION musaic/share/ops)
install(FILES backends/simt/stream.h DESTINATION musaic/share/backends/simt)
if(TARGET musaic_program)
  set_target_properties(musaic_program PROPERTIES INSTALL_RPATH $ORIGIN/../lib)
  install(TARGETS musaic_program RUNTIME DESTINATION musaic/bin)
endif()
