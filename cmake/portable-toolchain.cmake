# CMAKE_TOOLCHAIN_FILE of the portable build: this machine's compiler, with the C library and what else
# is linked from the folder SPILLWAY_SYSROOT (tools/wheel-sysroot.sh), and from nowhere else.
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES SPILLWAY_SYSROOT)
set(CMAKE_SYSROOT ${SPILLWAY_SYSROOT})
set(CMAKE_FIND_ROOT_PATH ${SPILLWAY_SYSROOT})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
foreach(kind LIBRARY INCLUDE PACKAGE)
  set(CMAKE_FIND_ROOT_PATH_MODE_${kind} ONLY)
endforeach()
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${SPILLWAY_SYSROOT})
set(ENV{PKG_CONFIG_LIBDIR}
  ${SPILLWAY_SYSROOT}/usr/lib/x86_64-linux-gnu/pkgconfig:${SPILLWAY_SYSROOT}/usr/share/pkgconfig)
# A compiler that is not made for it looks beside itself first, which is this machine's C library.
set(libraries ${SPILLWAY_SYSROOT}/usr/lib/x86_64-linux-gnu)
foreach(kind EXE SHARED)
  set(CMAKE_${kind}_LINKER_FLAGS_INIT
    "-B${libraries} -L${libraries} -L${SPILLWAY_SYSROOT}/lib/x86_64-linux-gnu")
endforeach()
unset(libraries)
