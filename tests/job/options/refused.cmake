# SPDX-License-Identifier: Apache-2.0
# PROGRAM with OPTION must not start: exit code 2, nothing printed, and one line on standard error that has TEXT.
execute_process(COMMAND ${PROGRAM} ${OPTION} RESULT_VARIABLE code OUTPUT_VARIABLE output ERROR_VARIABLE errors)
if(NOT code STREQUAL 2 OR NOT output STREQUAL "" OR NOT errors MATCHES "^tern: cannot start: [^\n]*${TEXT}[^\n]*\n$")
  message(FATAL_ERROR "exit code ${code}, not 2; or without the text \"${TEXT}\":\n${output}${errors}")
endif()
