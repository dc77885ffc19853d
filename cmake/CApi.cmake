# libspillway.so, the C API: include/spillway over src/capi. CMakeLists.txt includes this file
# after the layers; tests/capi links what it makes.

# The near device is this library's alone: file by file in the layer's archive, so that programs and
# what they preload get nothing of it.
file(GLOB_RECURSE near_device_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/platform/near/*.cc)
set_source_files_properties(${near_device_sources} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
unset(near_device_sources)

file(GLOB capi_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/capi/*.cc)
add_library(spillway_capi SHARED ${capi_sources})
add_library(spillway::spillway ALIAS spillway_capi)
target_include_directories(spillway_capi PUBLIC $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/include>)
target_link_libraries(spillway_capi PRIVATE spillway_runtime)
spillway_target_defaults(spillway_capi)
spillway_seldom_runs(spillway_capi)
target_link_options(spillway_capi PRIVATE
  -Wl,--version-script=${CMAKE_SOURCE_DIR}/src/capi/spillway.map -Wl,-z,nodelete)
# Before 1.0 a minor version may change what programs were built against.
set_target_properties(spillway_capi PROPERTIES OUTPUT_NAME spillway EXPORT_NAME spillway
  VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
  LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}
  LINK_DEPENDS ${CMAKE_SOURCE_DIR}/src/capi/spillway.map)
unset(capi_sources)
