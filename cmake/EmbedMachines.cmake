# The machine files of src/machine/builtin/ as one C++ source of the library spillway_machine.
# CMakeLists.txt includes this file, which adds the rule; the rule runs it again as a script
# (cmake -P), which writes the source. A machine file that changes, comes or goes starts the rule.

if(CMAKE_SCRIPT_MODE_FILE)
  file(GLOB files ${FOLDER}/*.toml)
  list(SORT files)
  set(source "// Written by cmake/EmbedMachines.cmake from src/machine/builtin/.\n")
  string(APPEND source "#include \"machine/builtin.h\"\n\nnamespace spillway {\nnamespace {\n\n"
    "constexpr BuiltinMachine kMachines[] = {\n")
  foreach(file ${files})
    get_filename_component(name ${file} NAME_WLE)
    file(READ ${file} text)
    string(APPEND source "    {\"${name}\", R\"toml(${text})toml\"},\n")
  endforeach()
  string(APPEND source "};\n\n}  // namespace\n\n"
    "std::span<const BuiltinMachine> builtin_machines() { return kMachines; }\n\n"
    "}  // namespace spillway\n")
  file(WRITE ${OUTPUT} "${source}")
  return()
endif()

set(folder ${CMAKE_SOURCE_DIR}/src/machine/builtin)
set(output ${CMAKE_BINARY_DIR}/generated/builtin_machines.cc)
file(GLOB files CONFIGURE_DEPENDS ${folder}/*.toml)
add_custom_command(OUTPUT ${output}
  COMMAND ${CMAKE_COMMAND} -DFOLDER=${folder} -DOUTPUT=${output} -P ${CMAKE_CURRENT_LIST_FILE}
  DEPENDS ${files} ${CMAKE_CURRENT_LIST_FILE}
  COMMENT "Embedding the built-in machines"
  VERBATIM)
target_sources(spillway_machine PRIVATE ${output})
unset(folder)
unset(output)
unset(files)
