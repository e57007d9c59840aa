# Has the headers that test programs, PyTorch's bindings and the extension's operators begin
# with compiled once for all of them: they take most of a compiler's time. That a source
# includes what it uses shows where others are compiled: in the checkout of a release.

# Gives a target the headers, precompiled.
function(xpu_stack_precompile target)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU" OR NOT "$ENV{DISTCC_HOSTS}" STREQUAL "")
    return() # another machine has no such file
  endif()
  list(TRANSFORM ARGN REPLACE "(.+)" "$<$<COMPILE_LANGUAGE:CXX>:<\\1$<ANGLE-R>>"
    OUTPUT_VARIABLE headers)
  target_precompile_headers(${target} PRIVATE ${headers})
endfunction()

# Gives programs the headers. They belong to an object of its own, which is compiled as the
# first of them, so that none waits for another to be linked.
function(xpu_stack_share_headers programs name)
  if(NOT programs)
    return()
  endif()
  list(GET programs 0 first)
  set(source "${CMAKE_BINARY_DIR}/${name}.cpp")
  file(TOUCH "${source}")
  add_library(${name} OBJECT EXCLUDE_FROM_ALL "${source}")
  foreach(property INCLUDE_DIRECTORIES COMPILE_DEFINITIONS COMPILE_OPTIONS COMPILE_FEATURES)
    set_property(TARGET ${name} PROPERTY ${property} "$<TARGET_PROPERTY:${first},${property}>")
  endforeach()
  foreach(property CXX_STANDARD CXX_EXTENSIONS)
    get_property(value TARGET ${first} PROPERTY ${property})
    set_property(TARGET ${name} PROPERTY ${property} ${value})
  endforeach()
  # As a program: what is compiled for a library has another flag.
  get_property(independent TARGET ${first} PROPERTY POSITION_INDEPENDENT_CODE)
  set_property(TARGET ${name} PROPERTY POSITION_INDEPENDENT_CODE OFF)
  if(independent)
    target_compile_options(${name} PRIVATE -fPIE)
  endif()
  xpu_stack_precompile(${name} gtest/gtest.h sycl/sycl.hpp ${ARGN})
  get_target_property(has ${name} PRECOMPILE_HEADERS)
  foreach(program IN LISTS programs)
    if(has)
      target_precompile_headers(${program} REUSE_FROM ${name})
    endif()
  endforeach()
endfunction()

function(xpu_stack_targets result directory)
  get_property(all DIRECTORY "${directory}" PROPERTY BUILDSYSTEM_TARGETS)
  get_property(below DIRECTORY "${directory}" PROPERTY SUBDIRECTORIES)
  foreach(one IN LISTS below)
    xpu_stack_targets(more "${one}")
    list(APPEND all ${more})
  endforeach()
  set(${result} ${all} PARENT_SCOPE)
endfunction()

function(xpu_stack_headers)
  xpu_stack_targets(targets "${CMAKE_SOURCE_DIR}")
  set(c10 ${targets})
  list(FILTER c10 INCLUDE REGEX "^c10_xpu_.*Test$")
  xpu_stack_share_headers("${c10}" xpu_stack_c10_headers
    c10/core/Device.h c10/util/Exception.h)
  set(aten ${targets})
  list(FILTER aten INCLUDE REGEX "^xpu_.*_test$")
  xpu_stack_share_headers("${aten}" xpu_stack_aten_headers ATen/ATen.h)
endfunction()

cmake_language(DEFER DIRECTORY "${CMAKE_SOURCE_DIR}" CALL xpu_stack_headers)
