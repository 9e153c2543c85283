# SPDX-License-Identifier: Apache-2.0
# What an installed Tern offers to others: find_package(tern [COMPONENTS base trace task net mobile]) and pkg-config tern.
# Both keep working when the installed folder is moved. Included last, when all layers are known.
include(CMakePackageConfigHelpers)

# tern_collect_layers(DIR OUT) appends the names of the layers made below DIR, lowest first.
function(tern_collect_layers DIR OUT)
  set(found ${${OUT}})
  get_property(targets DIRECTORY ${DIR} PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target IN LISTS targets)
    get_target_property(type ${target} TYPE)
    get_target_property(name ${target} EXPORT_NAME)
    if(target MATCHES "^tern_" AND type MATCHES "^(SHARED|STATIC)_LIBRARY$" AND name)
      list(APPEND found ${name})
    endif()
  endforeach()
  get_property(folders DIRECTORY ${DIR} PROPERTY SUBDIRECTORIES)
  foreach(folder IN LISTS folders)
    tern_collect_layers(${folder} found)
  endforeach()
  set(${OUT} ${found} PARENT_SCOPE)
endfunction()

set(TERN_COMPONENTS)
tern_collect_layers(${PROJECT_SOURCE_DIR}/tern TERN_COMPONENTS)

# A static library's users link what it uses privately, so they must find that too. A shared library's need not.
set(TERN_FIND_PRIVATE "")
set(TERN_PC_REQUIRES "")
set(TERN_PC_EXTRA "")
if(NOT BUILD_SHARED_LIBS)
  set(finds)
  foreach(layer IN LISTS TERN_COMPONENTS)
    get_target_property(libraries tern_${layer} LINK_LIBRARIES)
    foreach(library IN LISTS libraries)
      if(library MATCHES "^(spdlog|fmt)::")
        list(APPEND finds "find_dependency(${CMAKE_MATCH_1})")
        list(APPEND TERN_PC_REQUIRES ${CMAKE_MATCH_1})
      elseif(library MATCHES "^(nlohmann_json|CLI11)::")
        list(APPEND finds "find_dependency(${CMAKE_MATCH_1})")
      elseif(library MATCHES "^Boost::([a-z_]+)$")
        set(component ${CMAKE_MATCH_1}) # the next match overwrites it
        list(APPEND finds "find_dependency(Boost COMPONENTS ${component})")
        if(NOT component MATCHES "^(boost|headers)$")
          list(APPEND TERN_PC_EXTRA "-lboost_${component}")
        endif()
      elseif(library MATCHES "^PkgConfig::(.+)$")
        # The prefix by which a layer looked the module up is the module's name, in any case.
        string(TOLOWER ${CMAKE_MATCH_1} module)
        list(APPEND finds "find_dependency(PkgConfig)"
          "if(NOT TARGET ${library})\n  pkg_check_modules(${CMAKE_MATCH_1} REQUIRED QUIET IMPORTED_TARGET ${module})\nendif()")
        list(APPEND TERN_PC_REQUIRES ${module})
      elseif(library MATCHES "^[a-z][a-z_0-9]*$" AND NOT TARGET ${library})
        list(APPEND TERN_PC_EXTRA "-l${library}")
      endif()
    endforeach()
  endforeach()
  if(CMAKE_DL_LIBS)
    list(APPEND TERN_PC_EXTRA "-l${CMAKE_DL_LIBS}")
  endif()
  list(REMOVE_DUPLICATES finds)
  list(REMOVE_DUPLICATES TERN_PC_REQUIRES)
  list(REMOVE_DUPLICATES TERN_PC_EXTRA)
  list(JOIN finds "\n" TERN_FIND_PRIVATE)
  list(JOIN TERN_PC_REQUIRES " " TERN_PC_REQUIRES)
  list(JOIN TERN_PC_EXTRA " " TERN_PC_EXTRA)
endif()

# CMake
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/tern)
list(JOIN TERN_COMPONENTS " " TERN_COMPONENT_NAMES)
list(JOIN TERN_COMPONENTS "|" TERN_COMPONENT_REGEX)
install(EXPORT tern-targets NAMESPACE tern:: FILE ternTargets.cmake DESTINATION ${package_dir})
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/ternConfig.cmake.in ${PROJECT_BINARY_DIR}/ternConfig.cmake
  INSTALL_DESTINATION ${package_dir} PATH_VARS CMAKE_INSTALL_BINDIR NO_SET_AND_CHECK_MACRO NO_CHECK_REQUIRED_COMPONENTS_MACRO)
# Before 1.0 a minor version may break callers.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/ternConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/ternConfig.cmake ${PROJECT_BINARY_DIR}/ternConfigVersion.cmake
  ${CMAKE_CURRENT_LIST_DIR}/ternKernels.cmake DESTINATION ${package_dir})

# pkg-config
set(pc_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
if(IS_ABSOLUTE ${CMAKE_INSTALL_LIBDIR} OR IS_ABSOLUTE ${CMAKE_INSTALL_INCLUDEDIR})
  set(TERN_PC_PREFIX ${CMAKE_INSTALL_PREFIX})
else()
  file(RELATIVE_PATH up /prefix/${pc_dir} /prefix)
  string(REGEX REPLACE "/$" "" up ${up})
  set(TERN_PC_PREFIX "\${pcfiledir}/${up}")
endif()
cmake_path(APPEND TERN_PC_LIBDIR "\${prefix}" ${CMAKE_INSTALL_LIBDIR})
cmake_path(APPEND TERN_PC_INCLUDEDIR "\${prefix}" ${CMAKE_INSTALL_INCLUDEDIR})
set(TERN_PC_LIBS ${TERN_COMPONENTS}) # highest first: a static library comes before what it uses
list(REVERSE TERN_PC_LIBS)
list(TRANSFORM TERN_PC_LIBS PREPEND "-ltern_")
list(JOIN TERN_PC_LIBS " " TERN_PC_LIBS)
configure_file(${CMAKE_CURRENT_LIST_DIR}/tern.pc.in ${PROJECT_BINARY_DIR}/tern.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/tern.pc DESTINATION ${pc_dir})
