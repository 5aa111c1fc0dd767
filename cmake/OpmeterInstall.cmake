# SPDX-License-Identifier: Apache-2.0
# What `cmake --install` puts where, and the package that find_package(opmeter) finds. Components: `Runtime` (command and
# libraries) and `Development` (headers and package files); both by default.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(opmeter_package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/opmeter")

set_target_properties(opmeter_api PROPERTIES EXPORT_NAME api)
set_target_properties(opmeter_preload PROPERTIES EXPORT_NAME preload)
install(TARGETS opmeter RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT Runtime)
install(TARGETS opmeter_api opmeter_preload opmeter_hooks EXPORT opmeter
        LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT Runtime)
install(TARGETS opmeter_symbols LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT Runtime)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/profiler/include/opmeter" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
        COMPONENT Development)
install(EXPORT opmeter NAMESPACE opmeter:: FILE opmeterTargets.cmake DESTINATION "${opmeter_package_dir}"
        COMPONENT Development)
configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/opmeterConfig.cmake.in"
        "${CMAKE_BINARY_DIR}/opmeterConfig.cmake" INSTALL_DESTINATION "${opmeter_package_dir}"
        PATH_VARS CMAKE_INSTALL_BINDIR)
write_basic_package_version_file("${CMAKE_BINARY_DIR}/opmeterConfigVersion.cmake"
        COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_BINARY_DIR}/opmeterConfig.cmake" "${CMAKE_BINARY_DIR}/opmeterConfigVersion.cmake"
        DESTINATION "${opmeter_package_dir}" COMPONENT Development)
