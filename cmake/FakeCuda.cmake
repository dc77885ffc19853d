# The fake driver library, and the tests that stand on it: tests/platform/cuda becomes cuda_test.
# CMakeLists.txt includes this file with the other tests. CUDA's headers are compared with
# our declarations where they are found; nothing else here wants them.
file(GLOB fake_cuda_sources CONFIGURE_DEPENDS
  ${CMAKE_SOURCE_DIR}/tests/platform/cuda/fake_driver/*.cc)
add_library(fake_cuda SHARED ${fake_cuda_sources})
target_include_directories(fake_cuda PRIVATE ${CMAKE_SOURCE_DIR}/src
  INTERFACE ${CMAKE_SOURCE_DIR}/tests/platform/cuda/fake_driver)
target_link_libraries(fake_cuda PRIVATE fmt::fmt Threads::Threads)
spillway_target_defaults(fake_cuda)
spillway_unity(fake_cuda)
set(fake_cuda_exports ${CMAKE_SOURCE_DIR}/tests/platform/cuda/fake_driver/exports.map)
target_link_options(fake_cuda PRIVATE -Wl,--version-script=${fake_cuda_exports} -Wl,-z,nodelete)
# Programs find it by the name of the real one.
set_target_properties(fake_cuda PROPERTIES LINK_DEPENDS ${fake_cuda_exports}
  OUTPUT_NAME cuda VERSION 1 SOVERSION 1 LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fake_driver)

# The fake libcufile beside it, for direct storage.
add_library(fake_cufile SHARED ${CMAKE_SOURCE_DIR}/tests/platform/cuda/fake_cufile/cufile.cc)
target_include_directories(fake_cufile PRIVATE ${CMAKE_SOURCE_DIR}/src
  INTERFACE ${CMAKE_SOURCE_DIR}/tests/platform/cuda/fake_cufile)
target_link_libraries(fake_cufile PRIVATE fake_cuda fmt::fmt Threads::Threads)
spillway_target_defaults(fake_cufile)
set_target_properties(fake_cufile PROPERTIES
  OUTPUT_NAME cufile VERSION 0 SOVERSION 0 LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fake_driver)

# And the fake NVML, for what a device has in use.
add_library(fake_nvml SHARED ${CMAKE_SOURCE_DIR}/tests/platform/cuda/fake_nvml/nvml.cc)
target_link_libraries(fake_nvml PRIVATE fake_cuda)
spillway_target_defaults(fake_nvml)
set_target_properties(fake_nvml PROPERTIES
  OUTPUT_NAME nvidia-ml VERSION 1 SOVERSION 1 LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fake_driver)

file(GLOB_RECURSE cuda_test_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/platform/cuda/*_test.cc)
# Of the interposer, what is tested without its hooks. By itself: clang-tidy is to see it as the
# interposer's, without what tests are compiled with.
set(cuda_kernels ${CMAKE_SOURCE_DIR}/src/interpose/cuda/kernels)
add_library(cuda_own_kernels OBJECT ${cuda_kernels}/own_kernels.cc
  ${cuda_kernels}/copy_kernel.cc ${cuda_kernels}/copy_ptx.cc
  ${cuda_kernels}/fill_kernel.cc ${cuda_kernels}/fill_ptx.cc
  ${cuda_kernels}/fingerprint_kernel.cc ${cuda_kernels}/fingerprint_ptx.cc)
target_link_libraries(cuda_own_kernels PRIVATE spillway_runtime)
spillway_target_defaults(cuda_own_kernels)
spillway_unity(cuda_own_kernels)
unset(cuda_kernels)
# Of libspillway_near, all: a test stands between it and the platform, and is found by name.
file(GLOB near_updates CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/near/*.cc)
add_library(cuda_near_updates OBJECT ${near_updates})
target_link_libraries(cuda_near_updates PRIVATE spillway_optimizer)
spillway_target_defaults(cuda_near_updates)
spillway_unity(cuda_near_updates)
unset(near_updates)
add_executable(cuda_test ${cuda_test_sources})
target_link_libraries(cuda_test PRIVATE cuda_own_kernels cuda_near_updates spillway_optimizer spillway_runtime fake_cuda fake_cufile GTest::gmock GTest::gtest_main)
target_include_directories(cuda_test PRIVATE ${CMAKE_SOURCE_DIR}/tests)
set_target_properties(cuda_test PROPERTIES ENABLE_EXPORTS ON)
target_compile_definitions(cuda_test PRIVATE FAKE_CUDA_LIBRARY="$<TARGET_FILE:fake_cuda>"
  FAKE_CUFILE_LIBRARY="$<TARGET_FILE:fake_cufile>" SPILLWAY_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
set(cuda_headers ${CMAKE_SOURCE_DIR}/build/cuda-headers)  # tools/cuda-headers.sh
find_path(SPILLWAY_CUDA_INCLUDE cuda.h HINTS ${cuda_headers}/13 PATHS /usr/local/cuda/include
  ENV CUDA_HOME ENV CUDA_PATH PATH_SUFFIXES include)
mark_as_advanced(SPILLWAY_CUDA_INCLUDE)
if(SPILLWAY_CUDA_INCLUDE)
  target_include_directories(cuda_test SYSTEM PRIVATE ${SPILLWAY_CUDA_INCLUDE})
endif()
# Also with CUDA 12's, which are only compiled with.
if(EXISTS ${cuda_headers}/12 AND NOT SPILLWAY_SANITIZE)
  set(cuda_tests ${CMAKE_SOURCE_DIR}/tests/platform/cuda)
  add_library(cuda12_abi OBJECT ${cuda_tests}/driver_abi_test.cc ${cuda_tests}/cufile_abi_test.cc
    ${CMAKE_SOURCE_DIR}/tests/interpose/cuda/hooked_abi_test.cc)
  target_include_directories(cuda12_abi PRIVATE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/tests)
  target_include_directories(cuda12_abi SYSTEM PRIVATE ${cuda_headers}/12)
  target_link_libraries(cuda12_abi PRIVATE fmt::fmt tl::expected GTest::gtest)
  spillway_test_defaults(cuda12_abi)
  unset(cuda_tests)
endif()
unset(cuda_headers)
spillway_test_defaults(cuda_test)
spillway_tests_skip(cuda_test)
spillway_unity(cuda_test ${SPILLWAY_TESTS_AT_ONCE})
gtest_discover_tests(cuda_test TEST_PREFIX "cuda." DISCOVERY_MODE PRE_TEST
  PROPERTIES TIMEOUT 600)
unset(fake_cuda_sources)
unset(fake_cuda_exports)
unset(cuda_test_sources)

# Programs that know nothing of Spillway, for tests/interpose/cuda: one that is linked against the
# driver, one that finds it, and a plugin. Not with a sanitizer: its own look-ups at a program's
# start would reach the interposer's dlsym before its shadow memory is there.
if(NOT SPILLWAY_SANITIZE)
  set(cuda_program ${CMAKE_SOURCE_DIR}/tests/interpose/cuda/program)
  file(GLOB cuda_program_sources CONFIGURE_DEPENDS ${cuda_program}/*.cc)
  list(REMOVE_ITEM cuda_program_sources ${cuda_program}/plugin.cc)
  foreach(plugin cuda_program_plugin cuda_program_newer_plugin)
    add_library(${plugin} MODULE ${cuda_program}/plugin.cc)
    spillway_test_defaults(${plugin})
    target_link_libraries(${plugin} PRIVATE ${CMAKE_DL_LIBS})
  endforeach()
  target_compile_definitions(cuda_program_newer_plugin PRIVATE SPILLWAY_NEWER_TORCH)
  # A runtime with versions like the real one's, and who is linked against it.
  add_library(fake_cudart SHARED ${CMAKE_SOURCE_DIR}/tests/interpose/cuda/runtime/cudart.cc)
  set_target_properties(fake_cudart PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fake_runtime
    LINK_DEPENDS ${CMAKE_SOURCE_DIR}/tests/interpose/cuda/runtime/cudart.map)
  target_link_options(fake_cudart PRIVATE
    -Wl,--version-script=${CMAKE_SOURCE_DIR}/tests/interpose/cuda/runtime/cudart.map)
  add_library(cuda_program_tensors MODULE ${CMAKE_SOURCE_DIR}/tests/interpose/cuda/runtime/tensors.cc)
  # The same of cuBLAS.
  add_library(fake_cublas SHARED ${CMAKE_SOURCE_DIR}/tests/interpose/cuda/runtime/cublas.cc)
  set_target_properties(fake_cublas PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fake_runtime
    LINK_DEPENDS ${CMAKE_SOURCE_DIR}/tests/interpose/cuda/runtime/cublas.map)
  target_link_options(fake_cublas PRIVATE
    -Wl,--version-script=${CMAKE_SOURCE_DIR}/tests/interpose/cuda/runtime/cublas.map)
  target_link_libraries(fake_cublas PRIVATE ${CMAKE_DL_LIBS})
  add_library(cuda_program_products MODULE ${CMAKE_SOURCE_DIR}/tests/interpose/cuda/runtime/products.cc)
  target_link_libraries(cuda_program_products PRIVATE fake_cublas)
  foreach(library fake_cudart cuda_program_tensors fake_cublas cuda_program_products)
    spillway_test_defaults(${library})
  endforeach()
  target_link_libraries(fake_cudart PRIVATE ${CMAKE_DL_LIBS})
  target_link_libraries(cuda_program_tensors PRIVATE fake_cudart)
  foreach(program cuda_program cuda_program_linked)
    add_executable(${program} ${cuda_program_sources})
    target_include_directories(${program} PRIVATE ${CMAKE_SOURCE_DIR}/src
      ${CMAKE_SOURCE_DIR}/tests/platform/cuda/fake_driver)
    target_compile_definitions(${program} PRIVATE
      SPILLWAY_PLUGIN="$<TARGET_FILE:cuda_program_plugin>"
      SPILLWAY_NEWER_PLUGIN="$<TARGET_FILE:cuda_program_newer_plugin>"
      SPILLWAY_TENSORS="$<TARGET_FILE:cuda_program_tensors>"
      SPILLWAY_PRODUCTS="$<TARGET_FILE:cuda_program_products>")
    target_link_libraries(${program} PRIVATE Threads::Threads ${CMAKE_DL_LIBS})
    spillway_test_defaults(${program})
    add_dependencies(${program} cuda_program_plugin cuda_program_newer_plugin cuda_program_tensors cuda_program_products
      fake_cuda)
  endforeach()
  target_compile_definitions(cuda_program_linked PRIVATE SPILLWAY_LINKED)
  target_link_libraries(cuda_program_linked PRIVATE fake_cuda)
  unset(cuda_program)
  unset(cuda_program_sources)
  foreach(target cli_test interpose_test)
    target_compile_definitions(${target} PRIVATE FAKE_CUDA_LIBRARY="$<TARGET_FILE:fake_cuda>"
      FAKE_CUFILE_LIBRARY="$<TARGET_FILE:fake_cufile>" FAKE_NVML_LIBRARY="$<TARGET_FILE:fake_nvml>"
      CUDA_PROGRAM="$<TARGET_FILE:cuda_program>" CUDA_PROGRAM_LINKED="$<TARGET_FILE:cuda_program_linked>")
    add_dependencies(${target} spillway_cuda fake_cufile fake_nvml cuda_program cuda_program_linked)
  endforeach()
  # What counts how often `spillway` looks at its machine.
  add_library(looks MODULE ${CMAKE_SOURCE_DIR}/tests/cli/looks/looks.cc)
  spillway_test_defaults(looks)
  target_link_libraries(looks PRIVATE ${CMAKE_DL_LIBS})
  add_dependencies(cli_test looks)
  target_compile_definitions(cli_test PRIVATE LOOKS_LIBRARY="$<TARGET_FILE:looks>")
  # With the options of what it is part of, not those of the tests.
  add_library(cuda_kernel_names OBJECT ${CMAKE_SOURCE_DIR}/src/interpose/cuda/operands/address_use.cc
    ${CMAKE_SOURCE_DIR}/src/interpose/cuda/operands/held_addresses.cc
    ${CMAKE_SOURCE_DIR}/src/interpose/cuda/operands/read_only_parameters.cc
    ${CMAKE_SOURCE_DIR}/src/interpose/cuda/operands/unlooked_memory.cc)
  target_include_directories(cuda_kernel_names PRIVATE ${CMAKE_SOURCE_DIR}/src)
  spillway_target_defaults(cuda_kernel_names)
  target_link_libraries(interpose_test PRIVATE cuda_kernel_names)
  add_test(NAME CudaPreload.NeedsNothingButTheCLibrary
    COMMAND ${CMAKE_COMMAND} -DREADELF=${CMAKE_READELF} -DLIBRARY=$<TARGET_FILE:spillway_cuda>
      -P ${CMAKE_SOURCE_DIR}/cmake/NeedsOnlyC.cmake)
  if(SPILLWAY_CUDA_INCLUDE)
    target_include_directories(interpose_test SYSTEM PRIVATE ${SPILLWAY_CUDA_INCLUDE})
  endif()
endif()
