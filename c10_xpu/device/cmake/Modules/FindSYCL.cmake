# Finds a SYCL runtime with the headers of its host interface.
#
# Looked for, in this order: SYCL_ROOT, CMPLR_ROOT, ONEAPI_ROOT (each a CMake or
# an environment variable), the installation that the icpx on the PATH belongs
# to, /opt/intel/oneapi, and the prefix of the Python that PyTorch is built
# with (the PyPI packages intel-sycl-rt and intel-cmplr-lib-rt install there).
#
# Gives:
#   SYCL_FOUND
#   SYCL_VERSION        of the headers, e.g. 9.0.0 (libsycl.so's own numbering)
#   SYCL_INCLUDE_DIR    holds sycl/sycl.hpp
#   SYCL_LIBRARY        libsycl.so

set(_sycl_roots)
foreach(_name SYCL_ROOT CMPLR_ROOT)
  list(APPEND _sycl_roots ${${_name}} $ENV{${_name}})
endforeach()
foreach(_root ${ONEAPI_ROOT} $ENV{ONEAPI_ROOT})
  list(APPEND _sycl_roots ${_root}/compiler/latest ${_root}/compiler/latest/linux ${_root})
endforeach()
find_program(SYCL_COMPILER icpx)
mark_as_advanced(SYCL_COMPILER)
if(SYCL_COMPILER)
  get_filename_component(_bin ${SYCL_COMPILER} REALPATH)
  get_filename_component(_bin ${_bin} DIRECTORY)
  list(APPEND _sycl_roots ${_bin}/..)
endif()
list(APPEND _sycl_roots /opt/intel/oneapi/compiler/latest)
if(PYTHON_EXECUTABLE)
  get_filename_component(_bin ${PYTHON_EXECUTABLE} DIRECTORY)
  list(APPEND _sycl_roots ${_bin}/..)
endif()

find_path(SYCL_INCLUDE_DIR sycl/sycl.hpp
    HINTS ${_sycl_roots} PATH_SUFFIXES include NO_DEFAULT_PATH)
find_library(SYCL_LIBRARY sycl
    HINTS ${_sycl_roots} PATH_SUFFIXES lib lib64 NO_DEFAULT_PATH)
mark_as_advanced(SYCL_INCLUDE_DIR SYCL_LIBRARY)

if(SYCL_INCLUDE_DIR AND EXISTS ${SYCL_INCLUDE_DIR}/sycl/version.hpp)
  file(STRINGS ${SYCL_INCLUDE_DIR}/sycl/version.hpp _lines REGEX "^#define __LIBSYCL_[A-Z]+_VERSION +[0-9]+")
  foreach(_line IN LISTS _lines)
    string(REGEX MATCH "__LIBSYCL_([A-Z]+)_VERSION +([0-9]+)" _ "${_line}")
    set(_${CMAKE_MATCH_1} ${CMAKE_MATCH_2})
  endforeach()
  set(SYCL_VERSION "${_MAJOR}.${_MINOR}.${_PATCH}")
endif()

string(REPLACE ";" ", " _looked "${_sycl_roots}")
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(SYCL
    REQUIRED_VARS SYCL_LIBRARY SYCL_INCLUDE_DIR
    VERSION_VAR SYCL_VERSION
    REASON_FAILURE_MESSAGE
    "looked for lib/libsycl.so and include/sycl/sycl.hpp in ${_looked}. Set \
SYCL_ROOT to a oneAPI compiler's folder, or to the prefix that the PyPI package \
intel-sycl-rt is installed in")
