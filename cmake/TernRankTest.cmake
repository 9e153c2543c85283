# SPDX-License-Identifier: Apache-2.0
# tern_rank_test(NAME SOURCES … LINK target…): one program whose ranks test together (tests/support/rank_test.hpp), run
# alone, as threads of one process, and under every MPI that is installed.

find_program(TERN_MPIRUN_OPENMPI mpirun.openmpi)
find_program(TERN_MPIRUN_MPICH mpirun.mpich)

# tern_add_rank_runs(NAME COMMAND): the ctest entries of one program, given its target and arguments.
function(tern_add_rank_runs NAME)
  set(labels ranks ${NAME})
  foreach(run 1x1 2x1 4x1 2x3)
    string(REPLACE "x" ";" parts ${run})
    list(GET parts 0 ranks)
    list(GET parts 1 workers)
    add_test(NAME ${NAME}.inproc.${ranks}ranks.${workers}workers COMMAND ${ARGN})
    set_tests_properties(${NAME}.inproc.${ranks}ranks.${workers}workers PROPERTIES TIMEOUT 60 LABELS "${labels}"
      ENVIRONMENT "TERN_RANKS=${ranks};TERN_WORKERS=${workers}")
  endforeach()
  foreach(mpi openmpi mpich)
    string(TOUPPER ${mpi} upper)
    # The sanitizers' reports would be about the MPI libraries, which are not built with them.
    if(TARGET tern_mpi_${mpi} AND TERN_MPIRUN_${upper} AND NOT TERN_SANITIZE)
      set(flags)
      if(mpi STREQUAL openmpi)
        set(flags --oversubscribe --bind-to none)
      endif()
      foreach(run 2x1 4x1 2x2)
        string(REPLACE "x" ";" parts ${run})
        list(GET parts 0 ranks)
        list(GET parts 1 workers)
        set(test ${NAME}.${mpi}.${ranks}ranks.${workers}workers)
        add_test(NAME ${test} COMMAND ${TERN_MPIRUN_${upper}} ${flags} -np ${ranks} ${ARGN})
        set_tests_properties(${test} PROPERTIES TIMEOUT 60 LABELS "${labels};mpi" PROCESSORS 2 ENVIRONMENT
          "TERN_WORKERS=${workers};OMPI_ALLOW_RUN_AS_ROOT=1;OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1")
      endforeach()
    endif()
  endforeach()
endfunction()

function(tern_rank_test NAME)
  cmake_parse_arguments(R "" "" "SOURCES;LINK" ${ARGN})
  add_executable(${NAME} ${R_SOURCES} ${PROJECT_SOURCE_DIR}/tests/support/rank_test_main.cpp)
  target_include_directories(${NAME} PRIVATE ${PROJECT_SOURCE_DIR}/tests/support)
  target_link_libraries(${NAME} PRIVATE ${R_LINK} tern_flags)
  tern_add_rank_runs(${NAME} ${NAME})
endfunction()
