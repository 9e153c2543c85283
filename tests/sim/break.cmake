# SPDX-License-Identifier: Apache-2.0
# cmake -D FROM=FILE -D TO=FILE -D BUGS=FILE -P break.cmake: a copy of a source file that can have bugs. BUGS is CMake code
# that calls bug(BEFORE AFTER) for each.
file(READ ${FROM} text)
function(bug BEFORE AFTER)
  string(FIND "${text}" "${BEFORE}" first)
  string(FIND "${text}" "${BEFORE}" last REVERSE)
  if(first EQUAL -1 OR NOT first EQUAL last)
    message(FATAL_ERROR "${FROM} should contain this text once, so that tests/sim can break a copy of it:\n  ${BEFORE}\n"
      "Adapt tests/sim/CMakeLists.txt to the source's new text: the copy must have the bug that is described there.")
  endif()
  string(REPLACE "${BEFORE}" "${AFTER}" text "${text}")
  set(text "${text}" PARENT_SCOPE)
endfunction()
include(${BUGS})
file(WRITE ${TO} "#include \"tests/sim/bugs.hpp\"\n${text}")
