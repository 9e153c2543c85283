# SPDX-License-Identifier: Apache-2.0
# tern_check_kernels(TARGET [FILES file…]) compiles the kernels in the target's C++ files, and in those that are named,
# for OpenCL and CUDA whenever a file has changed and the target is built, as `tern kernels check` does. What a device's
# compiler refuses fails the build. Call it when the target has its sources. Files without kernels cost nothing. Where
# neither OpenCL, NVRTC nor clang is, the build says so and goes on.
function(tern_check_kernels TARGET)
  cmake_parse_arguments(K "" "" "FILES" ${ARGN})
  if(NOT TARGET ${TARGET})
    message(FATAL_ERROR "tern_check_kernels: there is no target ${TARGET}")
  endif()
  if(K_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "tern_check_kernels(${TARGET}): what is ${K_UNPARSED_ARGUMENTS}? Files come after the word FILES")
  endif()
  if(TARGET tern_tool) # Tern is part of this build
    set(tool $<TARGET_FILE:tern_tool>)
    set(tool_to_build tern_tool)
  elseif(EXISTS "${TERN_TOOL}")
    set(tool ${TERN_TOOL})
    set(tool_to_build ${TERN_TOOL})
  else()
    message(FATAL_ERROR "tern_check_kernels(${TARGET}): the command tern is not at ${TERN_TOOL}; install it with Tern")
  endif()

  get_target_property(sources ${TARGET} SOURCES)
  get_target_property(source_dir ${TARGET} SOURCE_DIR)
  get_target_property(binary_dir ${TARGET} BINARY_DIR)
  set(files)
  foreach(file IN LISTS sources K_FILES)
    if(NOT file MATCHES "\\.(cpp|cc|cxx|c\\+\\+|C|hpp|hh|hxx|h|ipp)$" OR file MATCHES "\\$<")
      continue()
    endif()
    if(NOT IS_ABSOLUTE "${file}")
      if(EXISTS "${source_dir}/${file}")
        set(file "${source_dir}/${file}")
      else() # it is generated, or CMake will say that it is not there
        set(file "${binary_dir}/${file}")
      endif()
    endif()
    list(APPEND files "${file}")
  endforeach()
  list(REMOVE_DUPLICATES files)

  set(folder "${CMAKE_CURRENT_BINARY_DIR}/CMakeFiles/${TARGET}_kernels")
  file(MAKE_DIRECTORY "${folder}")
  set(stamps)
  foreach(file IN LISTS files)
    string(SHA1 name "${file}")
    set(stamp "${folder}/${name}.checked")
    add_custom_command(OUTPUT "${stamp}"
      COMMAND ${tool} kernels check --if-possible "${file}"
      COMMAND ${CMAKE_COMMAND} -E touch "${stamp}"
      DEPENDS "${file}" ${tool_to_build}
      COMMENT "Checking the kernels in ${file}" VERBATIM)
    list(APPEND stamps "${stamp}")
  endforeach()
  add_custom_target(${TARGET}_kernels DEPENDS ${stamps})
  add_dependencies(${TARGET} ${TARGET}_kernels)
endfunction()
