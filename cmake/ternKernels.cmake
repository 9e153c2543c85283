# SPDX-License-Identifier: Apache-2.0
# tern_check_kernels(TARGET [FILES file…]) compiles the kernels in the target's C++ files, and in those that are named,
# for OpenCL and CUDA whenever a file has changed and the target is built, as `tern kernels check` does. What a device's
# compiler refuses fails the build. Call it when the target has its sources. Files without kernels cost nothing. Where
# neither OpenCL, NVRTC nor clang is, the build says so and goes on.
#
# tern_device_code(TARGET [FILES file…] [CLANG program]) makes PTX of the same kernels, by clang (14 or later; nothing of
# NVIDIA's is needed), and puts it into the target, a program or a shared library. Where NVRTC is missing when it runs,
# CUDA devices then run these kernels all the same. Blocks that clang cannot make PTX of, as they call erf, say, are told
# when the target is built, and so is that there is no clang; neither fails the build. What does not compile does.

# Sets tool, tool_to_build and files for the function CALLER, which has parsed its arguments.
macro(_tern_kernel_files CALLER TARGET)
  if(NOT TARGET ${TARGET})
    message(FATAL_ERROR "${CALLER}: there is no target ${TARGET}")
  endif()
  if(K_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "${CALLER}(${TARGET}): what is ${K_UNPARSED_ARGUMENTS}? Files come after the word FILES")
  endif()
  if(TARGET tern_tool) # Tern is part of this build
    set(tool $<TARGET_FILE:tern_tool>)
    set(tool_to_build tern_tool)
  elseif(EXISTS "${TERN_TOOL}")
    set(tool ${TERN_TOOL})
    set(tool_to_build ${TERN_TOOL})
  else()
    message(FATAL_ERROR "${CALLER}(${TARGET}): the command tern is not at ${TERN_TOOL}; install it with Tern")
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
endmacro()

function(tern_check_kernels TARGET)
  cmake_parse_arguments(K "" "" "FILES" ${ARGN})
  _tern_kernel_files(tern_check_kernels ${TARGET})
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

function(tern_device_code TARGET)
  cmake_parse_arguments(K "" "CLANG" "FILES" ${ARGN})
  _tern_kernel_files(tern_device_code ${TARGET})
  get_target_property(type ${TARGET} TYPE)
  if(type STREQUAL "STATIC_LIBRARY") # the linker would leave out what nothing refers to
    message(FATAL_ERROR "tern_device_code(${TARGET}): a static library cannot have PTX of its own; call it for the program, "
      "with the library's files after the word FILES")
  endif()
  set(clang)
  if(K_CLANG)
    set(clang --clang "${K_CLANG}")
  endif()
  set(folder "${CMAKE_CURRENT_BINARY_DIR}/CMakeFiles/${TARGET}_device_code")
  file(MAKE_DIRECTORY "${folder}")
  foreach(file IN LISTS files)
    string(SHA1 name "${file}")
    set(made "${folder}/${name}.cpp")
    add_custom_command(OUTPUT "${made}"
      COMMAND ${tool} kernels ptx --if-possible ${clang} --output "${made}" "${file}"
      DEPENDS "${file}" ${tool_to_build}
      COMMENT "Compiling the kernels in ${file} to PTX" VERBATIM)
    target_sources(${TARGET} PRIVATE "${made}")
    set_property(SOURCE "${made}" PROPERTY SKIP_UNITY_BUILD_INCLUSION ON)
  endforeach()
endfunction()
