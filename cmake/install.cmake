# SPDX-License-Identifier: Apache-2.0
#
# cmake --install: the program, the library and what find_package(incipit) needs. The parts of
# llama.cpp are copied; OpenVINO (180 MB) stays in the cache directory, or wherever OpenVINO_DIR
# of the consumer points.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package_folder lib/cmake/incipit)
install(TARGETS incipit incipit_llama EXPORT incipit-targets
        ARCHIVE DESTINATION lib)
install(FILES ${llama_libraries} DESTINATION lib/incipit)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT incipit-targets NAMESPACE incipit:: DESTINATION ${package_folder})
if(TARGET incipit_app)
  set_target_properties(incipit_app PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
  install(TARGETS incipit_app)
endif()

configure_package_config_file(cmake/incipit-config.cmake.in incipit-config.cmake
                              INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/incipit-config-version.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/incipit-config.cmake
              ${PROJECT_BINARY_DIR}/incipit-config-version.cmake DESTINATION ${package_folder})
install(FILES LICENSE THIRD_PARTY.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
