# `cmake --install`: the program and what it preloads, libspillway with its headers, and what CMake
# and pkg-config need to find it. src/cli/run/run_environment.cc looks for the preloaded library and the
# Python hook relative to the program, in the places given here.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS spillway RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
# Not in a folder of the architecture: that is not among those places on every machine.
install(TARGETS spillway_preload spillway_cuda spillway_near LIBRARY DESTINATION lib)
install(TARGETS spillway_capi EXPORT spillwayTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY ${CMAKE_SOURCE_DIR}/include/spillway DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
# The hook loads the package that lies around it.
install(DIRECTORY ${CMAKE_SOURCE_DIR}/python/spillway DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}
  FILES_MATCHING PATTERN "*.py" PATTERN "*.json" PATTERN __pycache__ EXCLUDE)

set(spillway_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/spillway)
install(EXPORT spillwayTargets NAMESPACE spillway:: DESTINATION ${spillway_package_dir})
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/spillwayConfig.cmake.in
  ${CMAKE_BINARY_DIR}/generated/spillwayConfig.cmake INSTALL_DESTINATION ${spillway_package_dir}
  NO_SET_AND_CHECK_MACRO NO_CHECK_REQUIRED_COMPONENTS_MACRO)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/generated/spillwayConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/generated/spillwayConfig.cmake
  ${CMAKE_BINARY_DIR}/generated/spillwayConfigVersion.cmake DESTINATION ${spillway_package_dir})

# Relative to the file itself, so that an installed tree can be moved.
set(spillway_pc_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH spillway_pc_up /prefix/${spillway_pc_dir} /prefix)
configure_file(${CMAKE_CURRENT_LIST_DIR}/spillway.pc.in ${CMAKE_BINARY_DIR}/generated/spillway.pc
  @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/generated/spillway.pc DESTINATION ${spillway_pc_dir})
unset(spillway_package_dir)
unset(spillway_pc_dir)
unset(spillway_pc_up)

# What the wheel holds (pyproject.toml), in the folder of the Python package.
if(SKBUILD)
  install(TARGETS spillway RUNTIME DESTINATION spillway/bin COMPONENT wheel EXCLUDE_FROM_ALL)
  install(TARGETS spillway_preload spillway_cuda spillway_near LIBRARY DESTINATION spillway/lib
    COMPONENT wheel EXCLUDE_FROM_ALL)
  spillway_install_licences(${SKBUILD_METADATA_DIR}/licenses COMPONENT wheel EXCLUDE_FROM_ALL)
endif()

# Programs of others would need the sanitizer's own flags to load the library.
if(SPILLWAY_TESTS AND NOT SPILLWAY_SANITIZE)
  set(script ${CMAKE_SOURCE_DIR}/tests/install/install_test.sh)
  set(folder ${CMAKE_BINARY_DIR}/install-test)
  foreach(check install cmake pkg_config run)
    add_test(NAME capi.install.${check}
      COMMAND ${script} ${check} ${folder} ${CMAKE_BINARY_DIR} ${CMAKE_COMMAND})
    set_tests_properties(capi.install.${check} PROPERTIES TIMEOUT 300 SKIP_RETURN_CODE 77)
    if(check STREQUAL install)
      set_tests_properties(capi.install.install PROPERTIES FIXTURES_SETUP spillway_installed)
    else()
      set_tests_properties(capi.install.${check} PROPERTIES FIXTURES_REQUIRED spillway_installed)
    endif()
  endforeach()
  add_dependencies(cli_test spillway_preload spillway_cuda spillway_near)
  unset(script)
  unset(folder)
endif()
