# The layer optimizer, and libspillway_near.so: its updates for Python, src/near. CMakeLists.txt
# includes this file after the layers.

# The compiler makes no operation of two by itself: which ones PyTorch's has made is written out.
target_compile_options(spillway_optimizer PRIVATE -ffp-contract=off)
# Highway includes such a file once for each processor.
file(GLOB optimizer_kernels CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/optimizer/*_kernels.cc)
set_source_files_properties(${optimizer_kernels} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
unset(optimizer_kernels)

file(GLOB near_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/near/*.cc)
add_library(spillway_near SHARED ${near_sources})
target_link_libraries(spillway_near PRIVATE spillway_optimizer Threads::Threads)
spillway_target_defaults(spillway_near)
spillway_unity(spillway_near)
set(near_exports ${CMAKE_SOURCE_DIR}/src/near/exports.map)
target_link_options(spillway_near PRIVATE -Wl,--version-script=${near_exports} -Wl,-z,nodelete)
if(SPILLWAY_PORTABLE)
  spillway_portable(spillway_near)
endif()
set_target_properties(spillway_near PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}
  LINK_DEPENDS ${near_exports})
unset(near_sources)
unset(near_exports)
