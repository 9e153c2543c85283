# SPDX-License-Identifier: Apache-2.0
# cmake -D PLUGIN=FILE -D SANITIZE=WORDS -P plugin_is_sanitized.cmake: does the plug-in call the sanitizers that this build
# is for? Their reports about the rings and bodies would be missing otherwise, and no other test would see it.
string(REPLACE "," ";" words "${SANITIZE}")
foreach(word IN LISTS words)
  if(word STREQUAL thread)
    set(call __tsan_write8)
  elseif(word STREQUAL address)
    set(call __asan_report_store8)
  elseif(word STREQUAL undefined)
    set(call __ubsan_handle_type_mismatch)
  else()
    continue()
  endif()
  file(STRINGS ${PLUGIN} found REGEX ${call} LIMIT_COUNT 1)
  if(NOT found)
    message(FATAL_ERROR "${PLUGIN} does not call ${call}: it was built without -fsanitize=${word}")
  endif()
endforeach()
