# SPDX-License-Identifier: Apache-2.0
# What every layer's library and every test has in common.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY_BIN ${PROJECT_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
find_package(Threads REQUIRED)

# How many seconds of CPU each compilation and each link takes is noted in cpu.log; tools/budget.py adds them up.
set(timed)
if(PROJECT_IS_TOP_LEVEL AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(timed ${PROJECT_SOURCE_DIR}/tools/build/timed.sh ${PROJECT_BINARY_DIR}/cpu.log)
  set(CMAKE_CXX_LINKER_LAUNCHER ${timed})
endif()

# ccache keeps what the compiler made, so that a second clone, or a second check, need not compile it again: paths below
# the clone are taken relative to it. TERN_CCACHE=OFF measures a build without it.
option(TERN_CCACHE "Compile through ccache where it is installed" ON)
find_program(TERN_CCACHE_PROGRAM ccache)
mark_as_advanced(TERN_CCACHE_PROGRAM)
if(TERN_CCACHE AND TERN_CCACHE_PROGRAM AND PROJECT_IS_TOP_LEVEL AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${timed} env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1
    CCACHE_SLOPPINESS=pch_defines,time_macros
    ${TERN_CCACHE_PROGRAM})
  # Precompiled headers are compared by what they hold, not by when they were made.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    add_compile_options("SHELL:-Xclang -fno-pch-timestamp")
  else()
    add_compile_options(-fpch-preprocess)
  endif()
elseif(timed)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${timed})
endif()

# Files that stand beside each other are compiled a few at a time: half of what a small file takes goes into headers.
# OFF shows a file that leans on its neighbour's includes; ./check --long builds so.
option(TERN_UNITY "Compile files of one target a few at a time" ON)

add_library(tern_flags INTERFACE)
target_compile_options(tern_flags INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor
  -Wno-missing-field-initializers # members left out of a designated initializer have defaults: that is the point
  $<$<BOOL:${TERN_WERROR}>:-Werror> -fno-semantic-interposition
  # What names a source file (source_location, assertions) says tern/net/job/node.cpp: folders of the machine that built Tern
  # help no user. The second form is that of paths that ccache has made relative to build/PRESET.
  # clang looks pragmas of kernels up by the names in debug information, so those stay whole.
  $<IF:$<CXX_COMPILER_ID:Clang>,-fmacro-prefix-map,-ffile-prefix-map>=${PROJECT_SOURCE_DIR}/=
  $<IF:$<CXX_COMPILER_ID:Clang>,-fmacro-prefix-map,-ffile-prefix-map>=../../=
  # g++ 12 warns of std::string's own code (GCC bug 105651), of more of it where that is precompiled.
  # TERN_UNITY includes sources: g++ takes their unnamed namespaces for those of headers, and clang warns of a local
  # variable with the name of another file's constant.
  "$<$<AND:$<BOOL:${TERN_UNITY}>,$<CXX_COMPILER_ID:GNU>>:-Wno-subobject-linkage>"
  "$<$<AND:$<BOOL:${TERN_UNITY}>,$<CXX_COMPILER_ID:Clang>>:-Wno-shadow>"
  "$<$<CXX_COMPILER_ID:GNU>:-Wno-restrict;-Wno-stringop-overflow;-Wno-stringop-overread;-Wno-array-bounds>")
# After so many seconds a test hangs. The longest ones came to 60 under the thread sanitizer on a machine that did much else.
set(TERN_TEST_SECONDS 60)
# For definitions: the list's comma would end a generator expression.
set(TERN_SANITIZED 0)
if(TERN_SANITIZE)
  set(TERN_SANITIZED 1)
  set(TERN_TEST_SECONDS 180)
  # Applies to everything built here, third-party headers included, so that no mixed binary results.
  add_compile_options(-fsanitize=${TERN_SANITIZE} -fno-omit-frame-pointer -g1) # lines are enough for their reports
  add_link_options(-fsanitize=${TERN_SANITIZE})
  # LLVM's linker takes a third of GNU ld's time for what sanitizers make of programs. Releases are linked as users link.
  find_program(TERN_LLD ld.lld-19)
  mark_as_advanced(TERN_LLD)
  if(TERN_LLD AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    add_link_options(-fuse-ld=${TERN_LLD})
  endif()
endif()
# The fuzzer follows the branches that these layers take; its main() is linked to the fuzz targets alone.
set(TERN_FUZZED_LAYERS base trace task net global)
if(TERN_BUILD_FUZZERS AND NOT (CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND TERN_SANITIZE))
  message(FATAL_ERROR "TERN_BUILD_FUZZERS needs clang's libFuzzer and its address sanitizer: use the preset asan")
endif()

# Headers that many files include, and that take the compiler seconds to read, are read once. OFF shows which includes a
# file lacks; ./check --long builds so.
option(TERN_PRECOMPILED_HEADERS "Read the standard library's headers once" ON)

# tern_compile_together(TARGET APART file…): a few of its files at a time, but for those APART.
function(tern_compile_together TARGET)
  cmake_parse_arguments(C "" "" "APART" ${ARGN})
  set_target_properties(${TARGET} PROPERTIES UNITY_BUILD ${TERN_UNITY} UNITY_BUILD_BATCH_SIZE 5)
  set_source_files_properties(${C_APART} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()

# tern_objects_without(LAYER OBJECTS file…): OBJECTS becomes those of tern_LAYER but for these files (absolute paths), which
# are then compiled apart there.
function(tern_objects_without LAYER OBJECTS)
  set_source_files_properties(${ARGN} TARGET_DIRECTORY tern_${LAYER} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  list(TRANSFORM ARGN REPLACE "^.*/tern/${LAYER}/" "" OUTPUT_VARIABLE names)
  list(JOIN names "|" names)
  string(REPLACE "." "\\." names "${names}")
  set(${OBJECTS} "$<FILTER:$<TARGET_OBJECTS:tern_${LAYER}>,EXCLUDE,/(${names})\\.o$>" PARENT_SCOPE)
endfunction()

# tern_read_once(TARGET header…): for a target of its own kind.
function(tern_read_once TARGET)
  if(TERN_PRECOMPILED_HEADERS)
    target_precompile_headers(${TARGET} PRIVATE ${ARGN})
  endif()
endfunction()

# tern_read_together(TARGET KIND header…): targets of one KIND, which are compiled with the same options (definitions may
# differ), share these headers. A target headers_KIND reads them, so that none of the others waits for another.
function(tern_read_together TARGET KIND)
  if(NOT TERN_PRECOMPILED_HEADERS)
    return()
  endif()
  if(NOT TARGET headers_${KIND})
    set(file ${PROJECT_BINARY_DIR}/headers/${KIND}.cpp)
    if(NOT EXISTS ${file})
      file(WRITE ${file} "int main() {}\n")
    endif()
    get_target_property(type ${TARGET} TYPE)
    get_target_property(options ${TARGET} COMPILE_OPTIONS)
    if(type STREQUAL EXECUTABLE)
      add_executable(headers_${KIND} ${file})
    else()
      add_library(headers_${KIND} OBJECT ${file})
    endif()
    if(options)
      target_compile_options(headers_${KIND} PRIVATE ${options})
    endif()
    target_include_directories(headers_${KIND} PRIVATE ${PROJECT_SOURCE_DIR})
    target_link_libraries(headers_${KIND} PRIVATE tern_flags $<$<STREQUAL:${KIND},unit_tests>:GTest::gmock>)
    target_precompile_headers(headers_${KIND} PRIVATE ${ARGN})
  endif()
  target_precompile_headers(${TARGET} REUSE_FROM headers_${KIND})
endfunction()

# What nearly all of our files include of C++'s library, in half of the time that a small one takes to compile.
set(TERN_READ_ONCE <algorithm> <array> <atomic> <chrono> <cstdint> <exception> <functional> <map> <memory> <mutex>
  <optional> <string> <string_view> <thread> <unordered_map> <utility> <vector>)

# tern_sanitize_quickly(target…): for tests and programs that tests run, before tern_read_together. What sanitizers add takes
# three times as long to optimize as to leave alone, and a test runs once (docs/decisions/0107).
function(tern_sanitize_quickly)
  foreach(target IN LISTS ARGN)
    target_compile_options(${target} PRIVATE $<$<BOOL:${TERN_SANITIZED}>:-O0>)
  endforeach()
endfunction()

# tern_build_quickly(target…): for unit tests, and what runs other programs and reads what they say; a third less to
# compile.
function(tern_build_quickly)
  foreach(target IN LISTS ARGN)
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
    tern_sanitize_quickly(${target})
    get_target_property(libraries ${target} LINK_LIBRARIES)
    if("GTest::gmock" IN_LIST libraries)
      tern_read_together(${target} unit_tests ${TERN_READ_ONCE} <gmock/gmock.h> <gtest/gtest.h>)
    endif()
  endforeach()
endfunction()

# tern_discover_suites(NAME): makes a test of each suite of tern_NAME_test, as gtest_discover_tests does of each test.
function(tern_discover_suites NAME)
  set(target tern_${NAME}_test)
  set(listed ${CMAKE_CURRENT_BINARY_DIR}/${target}_suites.cmake)
  set(run tests-asan)
  if(TERN_SANITIZE MATCHES "thread")
    set(run tests-tsan)
  endif()
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  add_custom_command(TARGET ${target} POST_BUILD BYPRODUCTS ${listed} VERBATIM
    COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/tools/build/suites.py --program $<TARGET_FILE:${target}>
      --prefix ${NAME}. --run ${run} --out ${listed} --labels ${NAME} --timeout 600)
  # One that is not built is a test that fails, not one that is missing.
  set(included ${CMAKE_CURRENT_BINARY_DIR}/${target}_include.cmake)
  file(WRITE ${included} "if(EXISTS [=[${listed}]=])\n  include([=[${listed}]=])\nelse()\n"
    "  add_test(${target}_NOT_BUILT ${target}_NOT_BUILT)\nendif()\n")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${included})
endfunction()

# tern_layer(NAME SOURCES … APART … HEADERS … DEPENDS layer… PRIVATE target… TESTS file… SINGLE_THREADED file…)
#   makes tern_NAME (tern::NAME) of SOURCES and of those that are compiled APART, installs it and its headers, and builds its unit tests as tern_NAME_test; those
#   that are SINGLE_THREADED not under the thread sanitizer, which could find nothing there (docs/decisions/0039).
function(tern_layer NAME)
  cmake_parse_arguments(L "" "" "SOURCES;APART;HEADERS;DEPENDS;PRIVATE;TESTS;SINGLE_THREADED" ${ARGN})
  add_library(tern_${NAME} ${L_SOURCES} ${L_APART})
  add_library(tern::${NAME} ALIAS tern_${NAME})
  set_target_properties(tern_${NAME} PROPERTIES EXPORT_NAME ${NAME} VERSION ${PROJECT_VERSION}
    SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR} INSTALL_RPATH "$ORIGIN")
  target_compile_features(tern_${NAME} PUBLIC cxx_std_20)
  target_sources(tern_${NAME} PUBLIC FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR} FILES ${L_HEADERS})
  if(TERN_BUILD_FUZZERS AND NAME IN_LIST TERN_FUZZED_LAYERS)
    target_compile_options(tern_${NAME} PRIVATE -fsanitize=fuzzer-no-link)
  endif()
  list(TRANSFORM L_DEPENDS PREPEND tern::)
  target_link_libraries(tern_${NAME} PUBLIC ${L_DEPENDS} Threads::Threads PRIVATE $<BUILD_INTERFACE:tern_flags> ${L_PRIVATE})
  tern_compile_together(tern_${NAME} APART ${L_APART})
  # Layers are compiled alike, but for those that the fuzzer follows.
  set(kind layers)
  if(TERN_BUILD_FUZZERS AND NAME IN_LIST TERN_FUZZED_LAYERS)
    set(kind fuzzed_layers)
  endif()
  tern_read_together(tern_${NAME} ${kind} ${TERN_READ_ONCE})
  # Calls inside a library need not go through the table that lets another library take a function's place.
  target_link_options(tern_${NAME} PRIVATE $<$<STREQUAL:$<TARGET_PROPERTY:tern_${NAME},TYPE>,SHARED_LIBRARY>:LINKER:-Bsymbolic-functions>)
  install(TARGETS tern_${NAME} EXPORT tern-targets
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
    FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  if(NOT TERN_SANITIZE MATCHES "thread")
    list(APPEND L_TESTS ${L_SINGLE_THREADED})
  endif()
  if(TERN_BUILD_TESTS AND L_TESTS)
    add_executable(tern_${NAME}_test ${L_TESTS})
    target_link_libraries(tern_${NAME}_test PRIVATE tern::${NAME} tern_flags GTest::gtest GTest::gmock GTest::gtest_main)
    tern_compile_together(tern_${NAME}_test)
    tern_build_quickly(tern_${NAME}_test) # rank, stress and property tests and bench/ see what -O3 makes of templates
    if(TERN_SANITIZE)
      tern_discover_suites(${NAME})
    else()
      gtest_discover_tests(tern_${NAME}_test TEST_PREFIX ${NAME}. DISCOVERY_TIMEOUT 60
        PROPERTIES TIMEOUT ${TERN_TEST_SECONDS} LABELS ${NAME})
    endif()
  endif()
endfunction()

# tern_layer_tests(NAME file… SINGLE_THREADED file…): more tests of tern_NAME_test, which test what the layer does and not
# one file of it.
function(tern_layer_tests NAME)
  cmake_parse_arguments(L "" "" "SINGLE_THREADED" ${ARGN})
  if(NOT TERN_SANITIZE MATCHES "thread")
    list(APPEND L_UNPARSED_ARGUMENTS ${L_SINGLE_THREADED})
  endif()
  list(TRANSFORM L_UNPARSED_ARGUMENTS PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
  target_sources(tern_${NAME}_test PRIVATE ${L_UNPARSED_ARGUMENTS})
endfunction()
