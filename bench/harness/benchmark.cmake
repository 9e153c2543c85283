# SPDX-License-Identifier: Apache-2.0
# What the CMakeLists.txt of each benchmark calls.

# bench_find_mpi(openmpi|mpich MODULE…): the target bench_mpi_X for rivals, by pkg-config's name for it.
function(bench_find_mpi MPI)
  string(TOUPPER ${MPI} upper)
  set(launcher)
  if(TARGET tern_mpi_${MPI})
    tern_mpi_launcher(${MPI} launcher)
    if(PkgConfig_FOUND)
      pkg_search_module(BENCH_${upper} QUIET IMPORTED_TARGET ${ARGN})
    endif()
    if(BENCH_${upper}_FOUND)
      set(library PkgConfig::BENCH_${upper})
    else() # the one that the plug-in was built with
      set(MPI_CXX_SKIP_MPICXX TRUE)
      find_package(MPI QUIET COMPONENTS C)
      set(library MPI::MPI_C)
    endif()
    add_library(bench_mpi_${MPI} INTERFACE)
    target_link_libraries(bench_mpi_${MPI} INTERFACE ${library})
    target_compile_definitions(bench_mpi_${MPI} INTERFACE OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX)
  else()
    message(STATUS "bench: no ${MPI}")
  endif()
  list(JOIN launcher "|" launcher)
  target_compile_definitions(tern_bench_jobs PRIVATE BENCH_${upper}_LAUNCHER="${launcher}")
endfunction()
bench_find_mpi(openmpi ompi-c ompi)
bench_find_mpi(mpich mpich)

# tern_bench(NAME SOURCES file… LINK target…): the benchmark program bench_NAME, found by `tern bench NAME`.
function(tern_bench NAME)
  cmake_parse_arguments(B "" "" "SOURCES;LINK" ${ARGN})
  add_executable(bench_${NAME} ${B_SOURCES})
  tern_build_quickly(bench_${NAME}) # it runs others, which are measured
  set_target_properties(bench_${NAME} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bench)
  target_link_libraries(bench_${NAME} PRIVATE tern_bench_harness tern_flags ${B_LINK})
endfunction()

# tern_bench_tiny(NAME SECONDS [allowed…]): the test bench.tiny.NAME runs each line of bench_NAME once, tiny, and fails if a
# result is wrong, a line is not in NAME/lines.txt or one of those is missing, or what packages.txt installs is absent.
# Allowed may be absent what a machine need not have.
function(tern_bench_tiny NAME SECONDS)
  if(NOT TERN_BUILD_TESTS)
    return()
  endif()
  set(allowed)
  foreach(one IN LISTS ARGN)
    list(APPEND allowed --allow-absent ${one})
  endforeach()
  add_test(NAME bench.tiny.${NAME}
    COMMAND bench_${NAME} --tiny --strict --lines ${CMAKE_CURRENT_SOURCE_DIR}/lines.txt ${allowed})
  set_tests_properties(bench.tiny.${NAME} PROPERTIES TIMEOUT ${SECONDS} LABELS "bench;nosan")
endfunction()

# tern_bench_contestant(NAME CONTESTANT SOURCES file… LINK target…): the program bench_NAME_CONTESTANT, whose path
# bench_NAME knows as the macro of that name. In a folder of its own, where `tern bench` does not take it for a benchmark.
function(tern_bench_contestant NAME CONTESTANT)
  cmake_parse_arguments(S "" "" "SOURCES;LINK" ${ARGN})
  set(contestant bench_${NAME}_${CONTESTANT})
  add_executable(${contestant} ${S_SOURCES})
  set_target_properties(${contestant} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bench/contestants)
  target_compile_features(${contestant} PRIVATE cxx_std_20)
  target_include_directories(${contestant} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${contestant} PRIVATE tern_flags ${S_LINK})
  add_dependencies(bench_${NAME} ${contestant})
  string(TOUPPER ${contestant} macro)
  target_compile_definitions(bench_${NAME} PRIVATE ${macro}="$<TARGET_FILE:${contestant}>")
endfunction()

# tern_bench_no_contestant(NAME CONTESTANT): it cannot be built here; its macro is empty.
function(tern_bench_no_contestant NAME CONTESTANT)
  message(STATUS "bench_${NAME}: no ${CONTESTANT}")
  string(TOUPPER bench_${NAME}_${CONTESTANT} macro)
  target_compile_definitions(bench_${NAME} PRIVATE ${macro}="")
endfunction()

# Compilers for OpenMP's two runtimes, each of which is its compiler's.
find_program(BENCH_CLANG NAMES clang++-19 clang++ DOC "For LLVM's OpenMP runtime in benchmarks")
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(BENCH_GNU ${CMAKE_CXX_COMPILER})
else()
  find_program(BENCH_GNU NAMES g++ DOC "For GNU's OpenMP runtime in benchmarks")
endif()

# tern_bench_openmp_contestant(NAME CONTESTANT COMPILER SOURCES file… [LINK static library…] [FLAGS flag…]): as
# tern_bench_contestant, with that compiler, which has the runtime. The macro of one that does not work is empty.
function(tern_bench_openmp_contestant NAME CONTESTANT COMPILER)
  cmake_parse_arguments(S "" "" "SOURCES;LINK;FLAGS" ${ARGN})
  set(contestant bench_${NAME}_${CONTESTANT})
  string(TOUPPER ${contestant} macro)
  set(works FALSE)
  if(COMPILER)
    file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/try_openmp.cpp
      "#include <omp.h>\n#include <vector>\nint main() { return omp_get_max_threads() < 1; }\n")
    execute_process(COMMAND ${COMPILER} -std=c++20 -fopenmp try_openmp.cpp -o try_${CONTESTANT}
      WORKING_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR} RESULT_VARIABLE code OUTPUT_QUIET ERROR_QUIET)
    if(code EQUAL 0)
      set(works TRUE)
    endif()
  endif()
  if(NOT works)
    tern_bench_no_contestant(${NAME} ${CONTESTANT})
    return()
  endif()
  string(TOUPPER "${CMAKE_BUILD_TYPE}" build_type)
  separate_arguments(same_flags UNIX_COMMAND "${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${build_type}}")
  set(libraries)
  foreach(library IN LISTS S_LINK)
    list(APPEND libraries $<TARGET_FILE:${library}>)
  endforeach()
  set(program ${PROJECT_BINARY_DIR}/bench/contestants/${contestant})
  add_custom_command(OUTPUT ${program}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${PROJECT_BINARY_DIR}/bench/contestants
    COMMAND ${COMPILER} -std=c++20 ${same_flags} -Wall -Wextra -fopenmp ${S_FLAGS} -I${PROJECT_SOURCE_DIR}
      -MMD -MT ${program} -MF ${CMAKE_CURRENT_BINARY_DIR}/${CONTESTANT}.d ${S_SOURCES} ${libraries} -o ${program}
    WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}
    DEPENDS ${S_SOURCES} ${S_LINK} DEPFILE ${CMAKE_CURRENT_BINARY_DIR}/${CONTESTANT}.d
    COMMENT "Building bench_${NAME}'s contestant ${CONTESTANT} with ${COMPILER}" VERBATIM)
  add_custom_target(${contestant} DEPENDS ${program})
  add_dependencies(bench_${NAME} ${contestant})
  target_compile_definitions(bench_${NAME} PRIVATE ${macro}="${program}")
endfunction()

# tern_bench_rivals(NAME SOURCES file…): the contestants mpi_openmpi and mpi_mpich; the macro of one
# that is not there is empty.
function(tern_bench_rivals NAME)
  foreach(mpi openmpi mpich)
    if(TARGET bench_mpi_${mpi})
      tern_bench_contestant(${NAME} mpi_${mpi} ${ARGN} LINK bench_mpi_${mpi})
      add_dependencies(bench_${NAME} tern_mpi_${mpi})
    else()
      tern_bench_no_contestant(${NAME} mpi_${mpi})
    endif()
  endforeach()
endfunction()
