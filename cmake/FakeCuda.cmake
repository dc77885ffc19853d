# The fake driver library, and the tests that stand on it: tests/platform/cuda becomes cuda_test.
# CMakeLists.txt includes this file with the other tests. Where a CUDA toolkit is installed its
# header is compared with our declarations; nothing else here wants it.
file(GLOB fake_cuda_sources CONFIGURE_DEPENDS
  ${CMAKE_SOURCE_DIR}/tests/platform/cuda/fake_driver/*.cc)
add_library(fake_cuda SHARED ${fake_cuda_sources})
target_include_directories(fake_cuda PRIVATE ${CMAKE_SOURCE_DIR}/src
  INTERFACE ${CMAKE_SOURCE_DIR}/tests/platform/cuda/fake_driver)
target_link_libraries(fake_cuda PRIVATE fmt::fmt Threads::Threads)
spillway_target_defaults(fake_cuda)
set(fake_cuda_exports ${CMAKE_SOURCE_DIR}/tests/platform/cuda/fake_driver/exports.map)
target_link_options(fake_cuda PRIVATE -Wl,--version-script=${fake_cuda_exports} -Wl,-z,nodelete)
set_target_properties(fake_cuda PROPERTIES LINK_DEPENDS ${fake_cuda_exports})

file(GLOB cuda_test_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/platform/cuda/*_test.cc)
add_executable(cuda_test ${cuda_test_sources})
target_link_libraries(cuda_test PRIVATE spillway_platform fake_cuda GTest::gmock GTest::gtest_main)
target_include_directories(cuda_test PRIVATE ${CMAKE_SOURCE_DIR}/tests)
target_compile_definitions(cuda_test PRIVATE FAKE_CUDA_LIBRARY="$<TARGET_FILE:fake_cuda>")
find_path(SPILLWAY_CUDA_INCLUDE cuda.h PATHS /usr/local/cuda/include ENV CUDA_HOME ENV CUDA_PATH
  PATH_SUFFIXES include)
mark_as_advanced(SPILLWAY_CUDA_INCLUDE)
if(SPILLWAY_CUDA_INCLUDE)
  target_include_directories(cuda_test SYSTEM PRIVATE ${SPILLWAY_CUDA_INCLUDE})
endif()
spillway_test_defaults(cuda_test)
gtest_discover_tests(cuda_test TEST_PREFIX "cuda." DISCOVERY_MODE PRE_TEST
  PROPERTIES TIMEOUT 600)
unset(fake_cuda_sources)
unset(fake_cuda_exports)
unset(cuda_test_sources)
