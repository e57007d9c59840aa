# The fast mode of a build, injected into PyTorch's own CMake through
# CMAKE_PROJECT_Torch_INCLUDE; PyTorch's files stay as they are.
#
# A library that the distribution ships for the same release keeps its target,
# its include paths and its place in the graph, but is reduced to the sources
# that the series adds to it and linked against the shipped library. The
# shipped library carries a version in its soname and ours does not, so both
# are loaded and the symbols of both are found, ours first. The bindings keep
# the sources that the series edits as well: what these export takes the place
# of the same symbols in the shipped library.
#
# Input:
#   XPU_STACK_PREBUILT_DIR      folder of the shipped libraries
#   XPU_STACK_PREBUILT_VERSION  their soversion, e.g. 1.13
#   XPU_STACK_PREBUILT_TARGETS  the targets to reduce, e.g. c10;torch_cpu
#   XPU_STACK_SOURCES           file that lists the sources that the series
#                               adds, a path relative to the checkout per line
#   XPU_STACK_EDITED            file that lists the files that it edits; a source
#                               of another shipped library than the bindings among
#                               them is an error, since the edit would have no effect
#   XPU_STACK_TOUCHED           file that lists what any stage of the series edits or
#                               removes, and what that needs: the bindings' sources
#                               among these, and those that are generated from such
#                               templates, are compiled at every stage
#   XPU_STACK_OWN_UNITS         file that lists the sources that the series adds, and
#                               the unit of each: two words per line

include("${CMAKE_CURRENT_LIST_DIR}/garbage.cmake")
include("${CMAKE_CURRENT_LIST_DIR}/headers.cmake")

# What is compiled here spends its time in what it calls, and a person waits for the
# compiler.
set(XPU_STACK_QUICK $<$<CONFIG:Release>:-O1>)
set(XPU_STACK_QUICKER $<$<CONFIG:Release>:-O0>)

# Whether a source of the bindings is compiled here in place of the shipped object, as one
# of `touched`.
function(xpu_stack_replaces result target source)
  set(${result} FALSE PARENT_SCOPE)
  if(target STREQUAL "torch_python")
    cmake_path(RELATIVE_PATH source BASE_DIRECTORY "${CMAKE_SOURCE_DIR}" OUTPUT_VARIABLE path)
    get_filename_component(name "${source}" NAME_WE)
    string(REGEX REPLACE "_[0-9]+$" "" name "${name}")
    set(template "tools/autograd/templates/${name}.cpp")
    if(path IN_LIST touched OR (path MATCHES "/generated/" AND template IN_LIST touched))
      set(${result} TRUE PARENT_SCOPE)
    endif()
  endif()
endfunction()

function(xpu_stack_reduce target)
  get_target_property(all ${target} SOURCES)
  get_target_property(from ${target} SOURCE_DIR)
  file(STRINGS "${XPU_STACK_SOURCES}" added)
  list(TRANSFORM added PREPEND "${CMAKE_SOURCE_DIR}/")
  file(STRINGS "${XPU_STACK_EDITED}" edited)
  list(TRANSFORM edited PREPEND "${CMAKE_SOURCE_DIR}/")
  file(STRINGS "${XPU_STACK_TOUCHED}" touched)
  set(kept ${all})
  list(FILTER kept INCLUDE REGEX "TARGET_OBJECTS")
  list(FILTER all EXCLUDE REGEX "TARGET_OBJECTS")
  set(absolute)
  foreach(source IN LISTS all)
    get_filename_component(source "${source}" ABSOLUTE BASE_DIR "${from}")
    list(APPEND absolute "${source}")
    xpu_stack_replaces(replaces "${target}" "${source}")
    if(source IN_LIST added OR replaces)
      list(APPEND kept "${source}")
    elseif(source IN_LIST edited)
      message(FATAL_ERROR "The series edits ${source}, which the shipped "
        "lib${target} was built from: MODE=full compiles it")
    endif()
  endforeach()
  # What the shipped library was made of, for the proof that it may be mixed in.
  list(JOIN absolute "\n" absolute)
  file(CONFIGURE OUTPUT "${CMAKE_BINARY_DIR}/xpu_stack_${target}_sources.txt"
    CONTENT "${absolute}\n" @ONLY)
  if(NOT kept)
    set(kept "${CMAKE_BINARY_DIR}/xpu_stack_nothing_added.cpp")
    file(TOUCH "${kept}")
  endif()
  set(shipped "${XPU_STACK_PREBUILT_DIR}/lib${target}.so.${XPU_STACK_PREBUILT_VERSION}")
  message(STATUS "xpu-stack: ${target} from ${shipped}, with ${kept}")
  set_property(TARGET ${target} PROPERTY SOURCES ${kept})
  if(NOT target STREQUAL "torch_python") # its libraries bring it folders of headers
    set_property(TARGET ${target} PROPERTY LINK_LIBRARIES)
  endif()
  set_property(TARGET ${target} APPEND PROPERTY LINK_LIBRARIES "${shipped}")
  set_property(TARGET ${target} APPEND PROPERTY INTERFACE_LINK_LIBRARIES "${shipped}")
endfunction()

# Of the series' own there are many, and SYCL's headers would be read for each.
function(xpu_stack_unite_own)
  file(STRINGS "${XPU_STACK_OWN_UNITS}" lines)
  foreach(line IN LISTS lines)
    separate_arguments(line)
    list(GET line 0 path)
    list(GET line 1 "unit_of_${path}")
  endforeach()
  foreach(target c10_xpu torch_xpu torch_python_xpu)
    if(NOT TARGET ${target})
      continue()
    endif()
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
    target_compile_options(${target} PRIVATE ${XPU_STACK_QUICK})
    get_target_property(all ${target} SOURCES)
    get_target_property(from ${target} SOURCE_DIR)
    foreach(source IN LISTS all)
      get_filename_component(path "${source}" ABSOLUTE BASE_DIR "${from}")
      cmake_path(RELATIVE_PATH path BASE_DIRECTORY "${CMAKE_SOURCE_DIR}")
      if(DEFINED "unit_of_${path}")
        set_source_files_properties("${source}" DIRECTORY "${from}"
          PROPERTIES UNITY_GROUP "${unit_of_${path}}")
      endif()
    endforeach()
  endforeach()
endfunction()

function(xpu_stack_bindings)
  target_compile_options(torch_python PRIVATE ${XPU_STACK_QUICKER})
  xpu_stack_precompile(torch_python
    torch/csrc/python_headers.h ATen/ATen.h torch/csrc/utils/pybind.h)
  target_link_options(torch_python PRIVATE
    "LINKER:--version-script=${CMAKE_CURRENT_FUNCTION_LIST_DIR}/bindings.map")
endfunction()

function(xpu_stack_fast)
  set_property(DIRECTORY "${CMAKE_SOURCE_DIR}" APPEND
    PROPERTY CMAKE_CONFIGURE_DEPENDS "${XPU_STACK_SOURCES}" "${XPU_STACK_EDITED}"
    "${XPU_STACK_TOUCHED}" "${XPU_STACK_OWN_UNITS}")
  xpu_stack_unite_own()
  foreach(target IN LISTS XPU_STACK_PREBUILT_TARGETS)
    if(TARGET ${target})
      xpu_stack_reduce(${target})
    endif()
  endforeach()
  if(TARGET torch_python)
    xpu_stack_bindings()
  endif()
endfunction()

cmake_language(DEFER DIRECTORY "${CMAKE_SOURCE_DIR}" CALL xpu_stack_fast)
