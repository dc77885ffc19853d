# Fails if a library needs another than those of the C library: `cmake -DREADELF=... -DLIBRARY=... -P`
# this file.
execute_process(COMMAND ${READELF} --dynamic --wide ${LIBRARY} OUTPUT_VARIABLE dynamic
  COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "\\(NEEDED\\)[^\n]*\\[[^]]+\\]" needed "${dynamic}")
if(NOT needed)
  message(FATAL_ERROR "${LIBRARY}: nothing is needed? ${dynamic}")
endif()
foreach(line ${needed})
  string(REGEX REPLACE ".*\\[([^]]+)\\]" "\\1" name "${line}")
  if(NOT name MATCHES "^(libc|libm|libdl|libpthread|librt|ld-linux.*)\\.so(\\..*)?$")
    message(FATAL_ERROR "${LIBRARY} needs ${name}, which may be missing where it is loaded")
  endif()
endforeach()
