# How a layer, its tests, its benchmarks and its fuzz targets become targets.
# A folder src/NAME becomes the library spillway_NAME; tests/NAME becomes NAME_test.

function(spillway_target_defaults target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wshadow -Wconversion
    -Wsign-conversion -Wnon-virtual-dtor -Werror
    $<$<CXX_COMPILER_ID:Clang>:-Wthread-safety>)
  if(SPILLWAY_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${SPILLWAY_SANITIZE}
      -fno-sanitize-recover=all -fno-omit-frame-pointer
      # With sanitizers GCC 12 sees uninitialized values in the standard library's own headers.
      $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
    target_link_options(${target} PRIVATE -fsanitize=${SPILLWAY_SANITIZE})
  endif()
endfunction()

# Several files in one: what most of them take to compile is what they include. Names are therefore
# unique in a target, also in anonymous namespaces. Not what is about a header by itself.
# spillway_unity(TARGET [FILES_AT_ONCE])
function(spillway_unity target)
  set(batch 10)
  if(ARGC GREATER 1)
    set(batch ${ARGV1})
  endif()
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources INCLUDE REGEX "_(abi|hpp)_test.cc$")
  set_source_files_properties(${sources} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  set_target_properties(${target} PROPERTIES
    UNITY_BUILD "${SPILLWAY_UNITY}" UNITY_BUILD_BATCH_SIZE "${batch}")
endfunction()

# For what runs for moments in a test, or not at all: with a sanitizer, optimising takes longer than
# running unoptimised. Of the optimizers' vector kernels it takes four times as long to compile.
function(spillway_seldom_runs target)
  if(SPILLWAY_SANITIZE)
    target_compile_options(${target} PRIVATE -O0)
  endif()
endfunction()

function(spillway_layer name)
  cmake_parse_arguments(arg "" "" "DEPENDS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${name}/*.cc)
  if(sources)
    add_library(spillway_${name} STATIC ${sources})
    spillway_unity(spillway_${name})
    target_include_directories(spillway_${name} PUBLIC ${CMAKE_SOURCE_DIR}/src)
    target_link_libraries(spillway_${name} PUBLIC ${arg_DEPENDS})
    spillway_target_defaults(spillway_${name})
  else()
    add_library(spillway_${name} INTERFACE)
    target_include_directories(spillway_${name} INTERFACE ${CMAKE_SOURCE_DIR}/src)
    target_link_libraries(spillway_${name} INTERFACE ${arg_DEPENDS})
  endif()
endfunction()

# What is tested is src: to optimise the tests' own code, most of it googletest's templates, is half of
# what compiling it takes. With a sanitizer, so are undefined-behaviour checks in it.
function(spillway_test_defaults target)
  spillway_target_defaults(${target})
  # GCC 12 takes "text" + std::to_string(i) for a copy onto itself where it sees enough of it at once.
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)
  if(SPILLWAY_SANITIZE)
    target_compile_options(${target} PRIVATE -O0)
  else()
    target_compile_options(${target} PRIVATE -O1)
  endif()
  if(SPILLWAY_SANITIZE MATCHES undefined)
    target_compile_options(${target} PRIVATE -fno-sanitize=undefined)
  endif()
endfunction()

# What every test program has: it skips its tests when there is no time left.
function(spillway_tests_skip target)
  if(NOT TARGET no_time_left)
    add_library(no_time_left OBJECT ${CMAKE_SOURCE_DIR}/tests/no_time_left.cc)
    target_link_libraries(no_time_left PRIVATE GTest::gtest)
    spillway_test_defaults(no_time_left)
  endif()
  target_link_libraries(${target} PRIVATE no_time_left)
endfunction()

# tests/cli and tests/interpose drive the built program, tests/capi the C API; every other folder links
# its layer.
function(spillway_layer_tests name)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/${name}/*_test.cc)
  list(FILTER sources EXCLUDE REGEX "/tests/platform/cuda/")  # cmake/FakeCuda.cmake
  if(SPILLWAY_SANITIZE)
    list(FILTER sources EXCLUDE REGEX "/tests/interpose/cuda/")  # likewise
  endif()
  if(NOT sources)
    return()
  endif()
  add_executable(${name}_test ${sources})
  if(name MATCHES "^(cli|capi|interpose)$")
    target_link_libraries(${name}_test PRIVATE spillway_runtime GTest::gmock GTest::gtest_main)
    add_dependencies(${name}_test spillway)
    target_compile_definitions(${name}_test PRIVATE SPILLWAY_PROGRAM="$<TARGET_FILE:spillway>")
  else()
    target_link_libraries(${name}_test PRIVATE spillway_${name} GTest::gmock GTest::gtest_main)
  endif()
  target_include_directories(${name}_test PRIVATE ${CMAKE_SOURCE_DIR}/tests)
  target_compile_definitions(${name}_test PRIVATE
    SPILLWAY_SOURCE_DIR="${CMAKE_SOURCE_DIR}" SPILLWAY_SHARED_DIR="${CMAKE_SOURCE_DIR}/../shared")
  spillway_test_defaults(${name}_test)
  spillway_tests_skip(${name}_test)
  spillway_unity(${name}_test ${SPILLWAY_TESTS_AT_ONCE})
  gtest_discover_tests(${name}_test TEST_PREFIX "${name}." DISCOVERY_MODE PRE_TEST
    PROPERTIES TIMEOUT 600)
  if(name STREQUAL base)
    foreach(check skipped run)
      add_test(NAME base.NoTimeLeft.${check}
        COMMAND ${CMAKE_SOURCE_DIR}/tests/no_time_left_test.sh ${check} $<TARGET_FILE:base_test>)
    endforeach()
  endif()
endfunction()

# A benchmark with a main of its own does without the one of benchmark_main.
function(spillway_benchmarks)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/bench/*_bench.cc
    ${CMAKE_SOURCE_DIR}/bench/gpu/*_bench.cc)
  foreach(source ${sources})
    get_filename_component(name ${source} NAME_WE)
    if(name STREQUAL pressure_bench AND NOT TARGET fake_cuda)
      continue()  # it is built with the tests
    endif()
    add_executable(${name} ${source})
    target_link_libraries(${name} PRIVATE spillway_runtime CLI11::CLI11
      benchmark::benchmark_main)
    target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
    spillway_target_defaults(${name})
    if(source MATCHES "/bench/gpu/")  # not among those that `make bench` runs on any machine
      set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/gpu)
    endif()
  endforeach()
  # The interposer's look-up of operands is a part of what a launch costs.
  target_sources(launch_path_bench PRIVATE ${CMAKE_SOURCE_DIR}/src/interpose/cuda/operands/operands.cc
    ${CMAKE_SOURCE_DIR}/src/interpose/cuda/operands/pointer_tables.cc
    ${CMAKE_SOURCE_DIR}/src/interpose/cuda/operands/held_addresses.cc
    ${CMAKE_SOURCE_DIR}/src/interpose/cuda/operands/unlooked_memory.cc
    ${CMAKE_SOURCE_DIR}/src/interpose/cuda/operands/encoded_addresses.cc
    ${CMAKE_SOURCE_DIR}/src/interpose/cuda/graphs/graph_launch_use.cc
    ${CMAKE_SOURCE_DIR}/src/interpose/cuda/operands/host_lists.cc)
  if(TARGET fake_cuda)
    target_sources(pressure_bench PRIVATE ${CMAKE_SOURCE_DIR}/bench/pressure_device.cc
      ${CMAKE_SOURCE_DIR}/bench/pressure_program.cc ${CMAKE_SOURCE_DIR}/bench/pressure_made_up.cc
      ${CMAKE_SOURCE_DIR}/bench/pressure_recorded.cc)
    target_link_libraries(pressure_bench PRIVATE fake_cuda)
    target_compile_definitions(pressure_bench PRIVATE FAKE_CUDA_LIBRARY="$<TARGET_FILE:fake_cuda>")
  endif()
endfunction()

# What they read is traces. Every layer that they link is built once more, with the fuzzer's
# instrumentation, so they link no other.
function(spillway_fuzz_targets)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/fuzz/*_fuzz.cc)
  foreach(source ${sources})
    get_filename_component(name ${source} NAME_WE)
    add_executable(${name} ${source})
    target_link_libraries(${name} PRIVATE spillway_trace)
    spillway_target_defaults(${name})
    target_compile_options(${name} PRIVATE -fsanitize=fuzzer)
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  endforeach()
endfunction()
