# SPDX-License-Identifier: Apache-2.0
# tern_rank_test(NAME [MODES] [SANITIZED_MPI mode…] SOURCES … LINK target…): one program whose ranks test together
# (tests/support/rank_test.hpp), run alone, as threads of one process, simulated, and under every MPI that is installed.
# MODES: a few times also with other ways to send and to look after messages. SANITIZED_MPI: under sanitizers it runs
# with MPICH too, two ranks of two workers, once for each of these modes; `plain` is the one without options.

# tern_mpi_launcher(openmpi|mpich RESULT): the launcher's command with the flags that let it run as root and with more
# ranks than cores; empty if there is none.
function(tern_mpi_launcher WHICH RESULT)
  set(${RESULT} "" PARENT_SCOPE)
  if(NOT TARGET tern_mpi_${WHICH})
    return()
  endif()
  if(WHICH STREQUAL openmpi)
    find_program(TERN_MPIRUN_OPENMPI NAMES mpirun.openmpi orterun mpirun)
    set(program ${TERN_MPIRUN_OPENMPI})
    set(kind "Open MPI|OpenRTE")
    set(flags --allow-run-as-root --oversubscribe --bind-to none)
  else()
    find_program(TERN_MPIRUN_MPICH NAMES mpirun.mpich mpiexec.hydra mpirun)
    set(program ${TERN_MPIRUN_MPICH})
    set(kind "HYDRA")
    set(flags -bind-to none)
  endif()
  if(program)
    execute_process(COMMAND ${program} --version OUTPUT_VARIABLE version ERROR_VARIABLE version)
    if(version MATCHES "${kind}")
      set(${RESULT} ${program} ${flags} PARENT_SCOPE)
    endif()
  endif()
endfunction()

# What MPICH needs under sanitizers, whose interceptors and leak check cover the libraries that it loads. No report is
# suppressed: these parts are not started.
# - UCX replaces the first instructions of mmap and its like, which are the thread sanitizer's there, and then jumps into
#   nothing. Only transports between hosts need that (UCX_MEM_MMAP_HOOK_MODE).
# - hwloc's components for devices leak what libpciaccess and libOpenCL found, and are unloaded before the leak check,
#   which so could not name them. Ranks are placed by cores and memory (HWLOC_COMPONENTS).
set(TERN_SANITIZED_MPI_ENVIRONMENT UCX_MEM_MMAP_HOOK_MODE=none HWLOC_COMPONENTS=-pci,-opencl,-gl)

# tern_define_launchers(TARGET) tells a test's code (tests/support/launcher.hpp) MPIRUN_OPENMPI and MPIRUN_MPICH, the
# launchers' programs: empty where there is no such MPI, and under sanitizers, where only SANITIZED_MPI and tests/job/mpi
# run with one: these programs test how jobs start and fail, which costs minutes there.
function(tern_define_launchers TARGET)
  foreach(mpi openmpi mpich)
    string(TOUPPER ${mpi} upper)
    set(launcher "")
    if(NOT TERN_SANITIZE)
      tern_mpi_launcher(${mpi} command)
      if(command)
        list(GET command 0 launcher)
      endif()
    endif()
    target_compile_definitions(${TARGET} PRIVATE MPIRUN_${upper}="${launcher}")
  endforeach()
endfunction()

# tern_add_rank_runs(NAME TARGET ARGS…): the ctest entries of one program.
function(tern_add_rank_runs NAME TARGET)
  set(labels ranks ${NAME})
  # Which runs a sanitizer sees: docs/decisions/0107.
  set(runs 1x1 2x1 4x1 2x3)
  set(worlds 1x1 4x3 "16x1,faults=delay:reorder:slow:pause" "64x2,topology=fat-tree:8:8,host=2")
  if(TERN_SANITIZE)
    set(runs 2x3)
    set(worlds "5x2,faults=delay:reorder:slow:pause")
  endif()
  if(TERN_SANITIZE MATCHES "thread")
    set(worlds)
  endif()
  foreach(run IN LISTS runs)
    string(REPLACE "x" ";" parts ${run})
    list(GET parts 0 ranks)
    list(GET parts 1 workers)
    add_test(NAME ${NAME}.inproc.${ranks}ranks.${workers}workers COMMAND ${TARGET} ${ARGN})
    set_tests_properties(${NAME}.inproc.${ranks}ranks.${workers}workers PROPERTIES TIMEOUT ${TERN_TEST_SECONDS} LABELS "${labels}"
      ENVIRONMENT "TERN_RANKS=${ranks};TERN_WORKERS=${workers}")
  endforeach()
  # RANKSxWORKERS, and more words of a world.
  foreach(run IN LISTS worlds)
    string(REGEX MATCH "^([0-9]+)x([0-9]+)(.*)" all ${run})
    set(ranks ${CMAKE_MATCH_1})
    set(workers ${CMAKE_MATCH_2})
    set(test ${NAME}.sim.${ranks}ranks.${workers}workers)
    add_test(NAME ${test} COMMAND ${TARGET} ${ARGN})
    set_tests_properties(${test} PROPERTIES TIMEOUT ${TERN_TEST_SECONDS} LABELS "${labels};sim"
      ENVIRONMENT "TERN_SIM=ranks=${ranks},workers=${workers}${CMAKE_MATCH_3}")
  endforeach()
  if(TERN_SANITIZE) # see SANITIZED_MPI
    return()
  endif()
  foreach(mpi openmpi mpich)
    tern_mpi_launcher(${mpi} launcher)
    if(launcher)
      foreach(run 2x1 4x1 2x2)
        string(REPLACE "x" ";" parts ${run})
        list(GET parts 0 ranks)
        list(GET parts 1 workers)
        set(test ${NAME}.${mpi}.${ranks}ranks.${workers}workers)
        add_test(NAME ${test} COMMAND ${launcher} -np ${ranks} $<TARGET_FILE:${TARGET}> ${ARGN})
        set_tests_properties(${test} PROPERTIES TIMEOUT ${TERN_TEST_SECONDS} LABELS "${labels};mpi" PROCESSORS 2
          ENVIRONMENT "TERN_WORKERS=${workers}")
      endforeach()
    endif()
  endforeach()
endfunction()

# The options of each mode, which change how messages travel.
set(TERN_MODE_plain)
set(TERN_MODE_on TERN_AGGREGATE=on)
set(TERN_MODE_off TERN_AGGREGATE=off)
set(TERN_MODE_thread TERN_PROGRESS=thread)
set(TERN_MODE_both TERN_AGGREGATE=on TERN_PROGRESS=thread)
set(TERN_MODE_mpi_alone TERN_MPI_RINGS=off) # small messages too, as between hosts
set(TERN_MODE_mpi_reads TERN_MPI_RINGS=reads) # bodies of middle size, as between cores that are far apart
set(TERN_MODE_mpi_unshared TERN_MPI_RINGS=unshared) # where the system lets no process map another's memory

# tern_add_sanitized_mpi_runs(NAME TARGET mode…): the ctest entries under sanitizers with MPICH, which is the one that they
# have no complaint about: Open MPI's own threads and leaks would drown what is ours.
function(tern_add_sanitized_mpi_runs NAME TARGET)
  tern_mpi_launcher(mpich launcher)
  if(NOT TERN_SANITIZE OR NOT launcher)
    return()
  endif()
  foreach(mode IN LISTS ARGN)
    set(test ${NAME}.mpich.2ranks.2workers.${mode})
    add_test(NAME ${test} COMMAND ${launcher} -np 2 $<TARGET_FILE:${TARGET}>)
    set_tests_properties(${test} PROPERTIES TIMEOUT ${TERN_TEST_SECONDS} LABELS "ranks;${NAME};mpi" PROCESSORS 2
      ENVIRONMENT "TERN_WORKERS=2;${TERN_SANITIZED_MPI_ENVIRONMENT};${TERN_MODE_${mode}}")
  endforeach()
endfunction()

# tern_add_mode_runs(NAME TARGET): more ctest entries, one for each mode.
function(tern_add_mode_runs NAME TARGET)
  set(runs 4x1 2x3)
  set(modes on off thread both)
  set(rooms on off)
  if(TERN_SANITIZE)
    set(runs 2x3)
    set(modes off both)
    set(rooms on)
  endif()
  foreach(mode IN LISTS modes)
    foreach(run IN LISTS runs)
      string(REPLACE "x" ";" parts ${run})
      list(GET parts 0 ranks)
      list(GET parts 1 workers)
      set(test ${NAME}.inproc.${ranks}ranks.${workers}workers.${mode})
      add_test(NAME ${test} COMMAND ${TARGET})
      set_tests_properties(${test} PROPERTIES TIMEOUT ${TERN_TEST_SECONDS} LABELS "ranks;${NAME}"
        ENVIRONMENT "TERN_RANKS=${ranks};TERN_WORKERS=${workers};${TERN_MODE_${mode}}")
    endforeach()
  endforeach()
  if(TERN_SANITIZE MATCHES "thread")
    return()
  endif()
  foreach(mode IN LISTS rooms)
    set(test ${NAME}.sim.8ranks.2workers.room2.${mode})
    add_test(NAME ${test} COMMAND ${TARGET})
    set_tests_properties(${test} PROPERTIES TIMEOUT ${TERN_TEST_SECONDS} LABELS "ranks;${NAME};sim"
      ENVIRONMENT "TERN_SIM=ranks=8,workers=2,slots=2,faults=delay:reorder:slow:pause;${TERN_MODE_${mode}}")
  endforeach()
  if(TERN_SANITIZE)
    return()
  endif()
  foreach(mpi openmpi mpich)
    tern_mpi_launcher(${mpi} launcher)
    if(launcher)
      foreach(mode on off thread mpi_alone mpi_reads mpi_unshared)
        set(test ${NAME}.${mpi}.2ranks.2workers.${mode})
        add_test(NAME ${test} COMMAND ${launcher} -np 2 $<TARGET_FILE:${TARGET}>)
        set_tests_properties(${test} PROPERTIES TIMEOUT ${TERN_TEST_SECONDS} LABELS "ranks;${NAME};mpi" PROCESSORS 2
          ENVIRONMENT "TERN_WORKERS=2;${TERN_MODE_${mode}}")
      endforeach()
    endif()
  endforeach()
endfunction()

function(tern_rank_test NAME)
  cmake_parse_arguments(R "MODES" "" "SANITIZED_MPI;SOURCES;LINK" ${ARGN})
  add_executable(${NAME} ${R_SOURCES} ${PROJECT_SOURCE_DIR}/tests/support/rank_test_main.cpp)
  target_include_directories(${NAME} PRIVATE ${PROJECT_SOURCE_DIR}/tests/support)
  target_link_libraries(${NAME} PRIVATE ${R_LINK} tern_flags)
  tern_sanitize_quickly(${NAME})
  tern_read_together(${NAME} rank_tests ${TERN_READ_ONCE} <tern/net/collectives.hpp> <tern/net/runtime.hpp>)
  tern_add_rank_runs(${NAME} ${NAME})
  if(R_MODES)
    tern_add_mode_runs(${NAME} ${NAME})
  endif()
  tern_add_sanitized_mpi_runs(${NAME} ${NAME} ${R_SANITIZED_MPI})
endfunction()

# tern_rank_runs(NAME RUNS): RUNS becomes the ctest entries of NAME in this folder.
function(tern_rank_runs NAME RUNS)
  get_property(all DIRECTORY PROPERTY TESTS)
  list(FILTER all INCLUDE REGEX "^${NAME}\\.")
  set(${RUNS} ${all} PARENT_SCOPE)
endfunction()
