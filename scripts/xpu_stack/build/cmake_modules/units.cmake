# Compiles the libraries of the series in units of several sources, injected into a
# project's own CMake through CMAKE_PROJECT_<name>_INCLUDE. SYCL's and PyTorch's headers
# take most of a compiler's time, and are read once for each unit.

include("${CMAKE_CURRENT_LIST_DIR}/garbage.cmake")
include("${CMAKE_CURRENT_LIST_DIR}/headers.cmake")

function(xpu_stack_units)
  foreach(target c10_xpu torch_xpu torch_xpu_python)
    if(TARGET ${target})
      set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
      # The first define what PyTorch's headers declare, and ours declare otherwise. The
      # second turns a warning off for the headers that it includes.
      get_target_property(sources ${target} SOURCES)
      # By a hash of the name, so that a new source leaves the other units as they are.
      list(LENGTH sources count)
      math(EXPR units "(${count} + 39) / 40 * 3")
      foreach(source ${sources})
        get_filename_component(name "${source}" NAME)
        string(MD5 hash "${name}")
        string(SUBSTRING "${hash}" 0 4 hash)
        math(EXPR unit "0x${hash} % ${units}")
        set_source_files_properties("${source}" TARGET_DIRECTORY ${target}
          PROPERTIES UNITY_GROUP "${unit}")
      endforeach()
      list(FILTER sources INCLUDE REGEX "(/Stock[A-Za-z]*|/SparseCsrOps)\\.cpp$")
      set_source_files_properties(${sources} TARGET_DIRECTORY ${target}
        PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON SKIP_PRECOMPILE_HEADERS ON)
      if(target STREQUAL "torch_xpu")
        xpu_stack_precompile(${target} ATen/ATen.h sycl/sycl.hpp)
      endif()
    endif()
  endforeach()
endfunction()

cmake_language(DEFER DIRECTORY "${CMAKE_SOURCE_DIR}" CALL xpu_stack_units)
