# One shared library of all folders and backends, its headers, and what find_package(heddle) reads.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

add_library(heddle_installed SHARED)
foreach(library ${HEDDLE_LIBRARIES})
  target_sources(heddle_installed PRIVATE $<TARGET_OBJECTS:${library}>)
endforeach()
set_target_properties(heddle_installed PROPERTIES OUTPUT_NAME heddle EXPORT_NAME heddle LINKER_LANGUAGE CXX)
if(NOT SKBUILD)  # there is one program for the library in a wheel, and no links between files
  set_target_properties(heddle_installed PROPERTIES VERSION ${PROJECT_VERSION}
                        SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
endif()
target_include_directories(heddle_installed INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_compile_features(heddle_installed INTERFACE cxx_std_20)
target_link_libraries(heddle_installed PUBLIC Threads::Threads PRIVATE SQLite::SQLite3 ${CMAKE_DL_LIBS})
if(HEDDLE_STATIC_LLVM)
  target_link_libraries(heddle_installed PRIVATE ${llvm_libraries})
  target_link_options(heddle_installed PRIVATE -Wl,--exclude-libs,ALL)  # another LLVM may be in the process
else()
  target_link_directories(heddle_installed PRIVATE ${LLVM_LIBRARY_DIRS})
  target_link_libraries(heddle_installed PRIVATE LLVM-19)
endif()

if(SKBUILD)
  return()  # cmake/wheel.cmake
endif()
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/heddle)
install(TARGETS heddle_installed EXPORT heddle LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/heddle DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT heddle NAMESPACE heddle:: FILE heddle-targets.cmake DESTINATION ${package})
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/heddle-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES cmake/heddle-config.cmake ${CMAKE_CURRENT_BINARY_DIR}/heddle-config-version.cmake DESTINATION ${package})
