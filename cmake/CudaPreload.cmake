# libspillway_cuda.so: what `spillway run` loads into programs on an NVIDIA GPU. It is loaded into
# other people's processes on other machines, so it brings everything with it but the C library.
# CMakeLists.txt includes this file after the layers.
file(GLOB_RECURSE cuda_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/interpose/cuda/*.cc)
add_library(spillway_cuda SHARED ${cuda_sources})
target_link_libraries(spillway_cuda PRIVATE spillway_runtime ${CMAKE_DL_LIBS})
spillway_target_defaults(spillway_cuda)
spillway_seldom_runs(spillway_cuda)
spillway_unity(spillway_cuda)
set(cuda_exports ${CMAKE_SOURCE_DIR}/src/interpose/cuda/exports.map)
target_link_options(spillway_cuda PRIVATE -Wl,--version-script=${cuda_exports}
  -Wl,-z,nodelete -Wl,-Bsymbolic-functions)
if(SPILLWAY_PORTABLE)
  spillway_portable(spillway_cuda)
else()
  spillway_brings_headers_code(spillway_cuda)
  set(cuda_archives "")
  foreach(library uring zstd z)
    string(TOUPPER SPILLWAY_${library}_ARCHIVE archive)
    find_library(${archive} lib${library}.a REQUIRED)
    mark_as_advanced(${archive})
    list(APPEND cuda_archives ${${archive}})
  endforeach()
  target_link_options(spillway_cuda PRIVATE
    -Wl,--whole-archive ${cuda_archives} -Wl,--no-whole-archive)
  # A sanitizer's own functions are the program's, and want the shared one of the language.
  if(NOT SPILLWAY_SANITIZE)
    target_link_options(spillway_cuda PRIVATE -Wl,-z,defs -static-libstdc++ -static-libgcc)
  endif()
endif()
set_target_properties(spillway_cuda PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}
  LINK_DEPENDS ${cuda_exports})
unset(archive)
unset(cuda_archives)
unset(cuda_sources)
unset(cuda_exports)
