# The portable build: a program and libraries that run where they were not built, with nothing but the
# C library, glibc 2.28 or newer, and libgcc_s. `make wheel` makes it, with an older C library's headers
# and stubs as CMAKE_SYSROOT; the compiler and its standard library are this machine's. CMakeLists.txt
# includes this file before it looks for libraries.
option(SPILLWAY_PORTABLE "Link everything statically but an old C library and libgcc_s" OFF)
set(spillway_inside ${CMAKE_SOURCE_DIR}/src/portable)

if(SPILLWAY_PORTABLE)
  set(CMAKE_FIND_LIBRARY_SUFFIXES .a)
  add_compile_options(-include ${spillway_inside}/old_glibc.h)
endif()

# fmt and toml++ become a part of the target itself: nothing has their archives.
function(spillway_brings_headers_code target)
  # Whole libraries by themselves.
  set_source_files_properties(${spillway_inside}/fmt_inside.cc ${spillway_inside}/toml_inside.cc
    PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  target_sources(${target} PRIVATE ${spillway_inside}/fmt_inside.cc ${spillway_inside}/toml_inside.cc)
  target_link_options(${target} PRIVATE -Wl,--as-needed -Wl,--gc-sections)
endfunction()

# References to these names come to __wrap_NAME.
function(spillway_wrap target)
  foreach(name ${ARGN})
    target_link_options(${target} PRIVATE -Wl,--wrap=${name})
  endforeach()
endfunction()

# Called for what the wheel holds.
function(spillway_portable target)
  if(NOT SPILLWAY_PORTABLE)
    return()
  endif()
  spillway_brings_headers_code(${target})
  set_source_files_properties(${spillway_inside}/old_glibc.cc PROPERTIES
    SKIP_UNITY_BUILD_INCLUSION ON)
  target_sources(${target} PRIVATE ${spillway_inside}/old_glibc.cc)
  target_link_libraries(${target} PRIVATE ${CMAKE_DL_LIBS} Threads::Threads)
  # Nobody in the program that loads this finds its standard library before their own.
  target_link_options(${target} PRIVATE -static-libstdc++ -Wl,-z,defs -Wl,--exclude-libs,ALL)
  spillway_wrap(${target} exp exp2 log log2 pow ${spillway_uring_calls})
endfunction()

# The preloaded library defines functions of the language's and of liburing's for the program that it
# is loaded into. Our own calls of the same names are to reach what is linked in: a program may have
# neither library.
set(spillway_uring_calls io_uring_queue_init io_uring_queue_init_params io_uring_setup)
function(spillway_own_uring target)
  if(NOT SPILLWAY_PORTABLE)
    return()
  endif()
  get_target_property(archive ${target} INTERFACE_LINK_LIBRARIES)
  set(own ${CMAKE_BINARY_DIR}/generated/liburing.a)
  set(names "")
  foreach(name ${spillway_uring_calls})
    list(APPEND names --redefine-sym ${name}=__wrap_${name})
  endforeach()
  file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/generated)
  execute_process(COMMAND ${CMAKE_OBJCOPY} ${names} ${archive} ${own} COMMAND_ERROR_IS_FATAL ANY)
  set_target_properties(${target} PROPERTIES INTERFACE_LINK_LIBRARIES ${own})
endfunction()

function(spillway_own_new target)
  if(NOT SPILLWAY_PORTABLE)
    return()
  endif()
  # Only what stands in another file is a reference.
  set_source_files_properties(${CMAKE_SOURCE_DIR}/src/interpose/host/new_delete.cc
    ${spillway_inside}/own_new.cc PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  target_sources(${target} PRIVATE ${spillway_inside}/own_new.cc)
  foreach(kind w a)
    foreach(form "" RKSt9nothrow_t St11align_val_t St11align_val_tRKSt9nothrow_t)
      spillway_wrap(${target} _Zn${kind}m${form})
    endforeach()
  endforeach()
  foreach(kind l a)
    foreach(form "" m RKSt9nothrow_t St11align_val_t mSt11align_val_t)
      spillway_wrap(${target} _Zd${kind}Pv${form})
    endforeach()
  endforeach()
endfunction()

# spillway_install_licences(FOLDER MORE...): the licences of what the portable build has linked in, as the
# packages have them that it came from. MORE is for install().
function(spillway_install_licences folder)
  if(NOT SPILLWAY_PORTABLE)
    return()
  endif()
  string(REGEX MATCH "^[0-9]+" gcc ${CMAKE_CXX_COMPILER_VERSION})
  foreach(package libfmt-dev libcli11-dev nlohmann-json3-dev libtomlplusplus-dev libzstd-dev zlib1g-dev
      libexpected-dev liburing-dev libhwy-dev libxxhash-dev libstdc++-${gcc}-dev libc6-dev)
    set(licence /usr/share/doc/${package}/copyright)
    if(NOT EXISTS ${licence})
      message(FATAL_ERROR "${licence} is missing, and the wheel may not go without it: "
        "install ${package} with its documents")
    endif()
    file(REAL_PATH ${licence} licence)
    install(FILES ${licence} DESTINATION ${folder} RENAME ${package}.txt ${ARGN})
  endforeach()
endfunction()
