# SPDX-License-Identifier: Apache-2.0

# tern_app_test(NAME APP PROGRAM SOURCES … [LINK …] [DEFINES …]): a test that runs the application from outside: as the
# target PROGRAM, under each MPI that there is (APP_PATH, APP_TEST_MPIS, TERN_TOOL_PATH). APP is the label and the prefix of
# its tests. QUIET: its tests are listed elsewhere.
function(tern_app_test NAME APP PROGRAM)
  cmake_parse_arguments(PARSE_ARGV 3 arg "QUIET" "" "SOURCES;LINK;DEFINES")
  set(mpis)
  foreach(mpi openmpi mpich)
    tern_mpi_launcher(${mpi} launcher)
    if(launcher)
      list(APPEND mpis ${mpi})
    endif()
  endforeach()
  list(JOIN mpis "," mpi_names)
  add_executable(${NAME} ${arg_SOURCES} ${PROJECT_SOURCE_DIR}/tests/support/child.cpp)
  target_include_directories(${NAME} PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/tests/support)
  target_compile_definitions(${NAME} PRIVATE APP_PATH="$<TARGET_FILE:${PROGRAM}>" APP_TEST_MPIS="${mpi_names}"
    TERN_TOOL_PATH="$<TARGET_FILE:tern_tool>" ${arg_DEFINES})
  target_link_libraries(${NAME} PRIVATE ${arg_LINK} tern_flags nlohmann_json::nlohmann_json GTest::gtest GTest::gtest_main)
  add_dependencies(${NAME} ${PROGRAM} tern_tool)
  foreach(mpi IN LISTS mpis)
    add_dependencies(${NAME} tern_mpi_${mpi})
  endforeach()
  tern_build_quickly(${NAME})
  if(NOT arg_QUIET)
    gtest_discover_tests(${NAME} TEST_PREFIX ${APP}. DISCOVERY_TIMEOUT 60
      PROPERTIES TIMEOUT ${TERN_TEST_SECONDS} PROCESSORS 2 LABELS ${APP})
  endif()
endfunction()
