# SPDX-License-Identifier: Apache-2.0
# Copies of the layers' sources with bugs that tests must find. One program has all of them, and none does anything until
# the program is told to have it (tests/sim/bugs.hpp).

# tern_bug(SET NAME SOURCE BEFORE AFTER): in the copy of tern/SOURCE that the programs of SET have there is AFTER instead of
# BEFORE, which is the same unless TERN_BUG(NAME). A bug may be in several places.
function(tern_bug SET NAME SOURCE BEFORE AFTER)
  string(FIND "${AFTER}" "TERN_BUG(${NAME})" asked)
  if(asked EQUAL -1)
    message(FATAL_ERROR "The copy of tern/${SOURCE} does not ask for TERN_BUG(${NAME}): ${AFTER}")
  endif()
  get_property(sources GLOBAL PROPERTY ${SET}_sources)
  list(APPEND sources ${SOURCE})
  list(REMOVE_DUPLICATES sources)
  set_property(GLOBAL PROPERTY ${SET}_sources ${sources})
  set_property(GLOBAL APPEND_STRING PROPERTY ${SET}_bugs_in_${SOURCE} "bug([==[${BEFORE}]==] [==[${AFTER}]==])\n")
endfunction()

# tern_add_bugs(TARGET SET LAYER…): TARGET, with the copies of SET, and with the other objects of these layers.
function(tern_add_bugs TARGET SET)
  get_property(sources GLOBAL PROPERTY ${SET}_sources)
  set(break ${PROJECT_SOURCE_DIR}/tests/sim/break.cmake)
  foreach(source IN LISTS sources)
    string(MAKE_C_IDENTIFIER ${source} name)
    set(copy ${CMAKE_CURRENT_BINARY_DIR}/broken_${name}.cpp)
    set(bugs ${CMAKE_CURRENT_BINARY_DIR}/broken_${name}.cmake)
    get_property(all GLOBAL PROPERTY ${SET}_bugs_in_${source})
    file(CONFIGURE OUTPUT ${bugs} CONTENT "${all}" @ONLY)
    add_custom_command(OUTPUT ${copy} VERBATIM
      COMMAND ${CMAKE_COMMAND} -D FROM=${PROJECT_SOURCE_DIR}/tern/${source} -D TO=${copy} -D BUGS=${bugs} -P ${break}
      DEPENDS ${PROJECT_SOURCE_DIR}/tern/${source} ${bugs} ${break})
    target_sources(${TARGET} PRIVATE ${copy})
  endforeach()
  foreach(layer IN LISTS ARGN)
    set(replaced ${sources})
    list(FILTER replaced INCLUDE REGEX "^${layer}/")
    list(TRANSFORM replaced PREPEND ${PROJECT_SOURCE_DIR}/tern/)
    tern_objects_without(${layer} others ${replaced})
    target_sources(${TARGET} PRIVATE ${others})
    target_compile_definitions(${TARGET} PRIVATE $<TARGET_PROPERTY:tern_${layer},COMPILE_DEFINITIONS>)
  endforeach()
endfunction()
