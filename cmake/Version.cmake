# The version and the commit that is built, as one small C++ source of the program. CMakeLists.txt
# includes this file, which adds the rule; the rule runs it again as a script (cmake -P) in every
# build, and the script writes the source only where it has changed: then that file alone is
# compiled, and the program linked.

if(CMAKE_SCRIPT_MODE_FILE)
  set(commit unknown)
  find_program(GIT git)
  if(GIT)
    # Not of a repository around a folder that was unpacked there; nor does a build lock the index.
    set(ENV{GIT_OPTIONAL_LOCKS} 0)
    set(git ${GIT} -c safe.directory=${FOLDER} -C ${FOLDER})
    execute_process(COMMAND ${git} rev-parse --show-cdup OUTPUT_VARIABLE up RESULT_VARIABLE failed
      OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    if(NOT failed AND up STREQUAL "")
      execute_process(COMMAND ${git} describe --tags --always --dirty --abbrev=12
        OUTPUT_VARIABLE described
        RESULT_VARIABLE failed OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
      if(NOT failed)
        set(commit ${described})
      endif()
    endif()
  endif()
  string(CONCAT source "// Written by cmake/Version.cmake.\n#include \"cli/version.h\"\n\nnamespace spillway {\n\n"
    "std::string_view version() { return \"${VERSION}\"; }\n"
    "std::string_view commit() { return \"${commit}\"; }\n\n}  // namespace spillway\n")
  if(EXISTS ${OUTPUT})
    file(READ ${OUTPUT} before)
  endif()
  if(NOT "${before}" STREQUAL "${source}")
    file(WRITE ${OUTPUT} "${source}")
  endif()
  return()
endif()

set(output ${CMAKE_BINARY_DIR}/generated/version.cc)
add_custom_target(spillway_version
  COMMAND ${CMAKE_COMMAND} -DFOLDER=${CMAKE_SOURCE_DIR} -DVERSION=${PROJECT_VERSION} -DOUTPUT=${output}
    -P ${CMAKE_CURRENT_LIST_FILE}
  BYPRODUCTS ${output}
  COMMENT "Looking at the commit"
  VERBATIM)
target_sources(spillway PRIVATE ${output})
set_source_files_properties(${output} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
add_dependencies(spillway spillway_version)
unset(output)
