# Finds a SYCL runtime with the headers of its host interface.
#
# An installation is a folder with include/sycl/sycl.hpp and lib/libsycl.so: a
# oneAPI compiler's folder, or the prefix of a Python environment that the PyPI
# package intel-sycl-rt is installed in. SYCL_ROOT, a CMake or an environment
# variable, names one and is then the only one looked at. Otherwise the first of
# these that is one is taken:
#
#   CMPLR_ROOT           as oneAPI's setvars.sh sets it
#   ONEAPI_ROOT          its compiler/latest
#   icpx on the PATH     what it belongs to
#   /opt/intel/oneapi    its compiler/latest
#   Python               the environment of PYTHON_EXECUTABLE (also Python3_ and
#                        Python_EXECUTABLE; where none is set `python`, as
#                        PyTorch's build has it), and the one that this file is
#                        installed in
#
# Headers and library are always of the same installation. Nothing is cached: a
# changed SYCL_ROOT takes effect at the next configuration.
#
# Gives:
#   SYCL_FOUND
#   SYCL_VERSION           of the library, e.g. 9.0.0
#   SYCL_COMPILER_VERSION  the day that the release was made from, e.g. 20260930
#   SYCL_INCLUDE_DIR       holds sycl/sycl.hpp
#   SYCL_INCLUDE_DIRS      all that those headers need
#   SYCL_LIBRARY           libsycl.so

set(SYCL_INCLUDE_DIR)
set(SYCL_INCLUDE_DIRS)
set(SYCL_LIBRARY)
set(SYCL_VERSION)
set(SYCL_COMPILER_VERSION)

# ---[ Where it may be
set(_sycl_roots "${SYCL_ROOT}")
if(NOT _sycl_roots)
  set(_sycl_roots "$ENV{SYCL_ROOT}")
endif()
if(NOT _sycl_roots)
  list(APPEND _sycl_roots ${CMPLR_ROOT} $ENV{CMPLR_ROOT})
  foreach(_sycl_oneapi ${ONEAPI_ROOT} $ENV{ONEAPI_ROOT})
    list(APPEND _sycl_roots ${_sycl_oneapi}/compiler/latest ${_sycl_oneapi})
  endforeach()

  unset(_sycl_icpx CACHE)
  find_program(_sycl_icpx icpx)
  if(_sycl_icpx)
    get_filename_component(_sycl_bin ${_sycl_icpx} REALPATH)
    get_filename_component(_sycl_bin ${_sycl_bin} DIRECTORY)
    get_filename_component(_sycl_root ${_sycl_bin} DIRECTORY)
    list(APPEND _sycl_roots ${_sycl_root})
  endif()
  unset(_sycl_icpx CACHE)

  list(APPEND _sycl_roots /opt/intel/oneapi/compiler/latest)

  # Python is asked where pip installs to: its executable may be a wrapper that
  # stands elsewhere, and some distributions use another prefix than their own.
  set(_sycl_pythons ${PYTHON_EXECUTABLE} ${Python3_EXECUTABLE} ${Python_EXECUTABLE})
  if(NOT _sycl_pythons)
    set(_sycl_pythons python)
  endif()
  foreach(_sycl_python IN LISTS _sycl_pythons)
    execute_process(
        COMMAND ${_sycl_python} -c "import sysconfig; print(sysconfig.get_path('data'))"
        RESULT_VARIABLE _sycl_exitcode
        OUTPUT_VARIABLE _sycl_root
        OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    if(_sycl_exitcode EQUAL 0)
      list(APPEND _sycl_roots ${_sycl_root})
    endif()
  endforeach()
  if(CMAKE_CURRENT_LIST_DIR MATCHES "^(.*)/lib(64)?/python[0-9.]+/(site|dist)-packages/")
    list(APPEND _sycl_roots ${CMAKE_MATCH_1})
  endif()
  list(REMOVE_DUPLICATES _sycl_roots)
endif()

# ---[ Where it is
foreach(_sycl_root IN LISTS _sycl_roots)
  foreach(_sycl_lib lib lib64)
    set(_sycl_library
        "${_sycl_root}/${_sycl_lib}/${CMAKE_SHARED_LIBRARY_PREFIX}sycl${CMAKE_SHARED_LIBRARY_SUFFIX}")
    if(NOT SYCL_LIBRARY AND EXISTS "${_sycl_library}"
       AND EXISTS "${_sycl_root}/include/sycl/sycl.hpp")
      set(SYCL_LIBRARY "${_sycl_library}")
      set(SYCL_INCLUDE_DIR "${_sycl_root}/include")
    endif()
  endforeach()
endforeach()

if(SYCL_INCLUDE_DIR)
  set(SYCL_INCLUDE_DIRS "${SYCL_INCLUDE_DIR}")
  # Where releases before 2025.3 have the headers that SYCL's own include.
  if(EXISTS "${SYCL_INCLUDE_DIR}/sycl/CL/cl.h" OR EXISTS "${SYCL_INCLUDE_DIR}/sycl/ur_api.h")
    list(APPEND SYCL_INCLUDE_DIRS "${SYCL_INCLUDE_DIR}/sycl")
  endif()
  if(EXISTS "${SYCL_INCLUDE_DIR}/sycl/version.hpp")
    file(STRINGS "${SYCL_INCLUDE_DIR}/sycl/version.hpp" _sycl_lines
         REGEX "^#define +__(LIB)?SYCL_[A-Z]+_VERSION +[0-9]+")
    foreach(_sycl_line IN LISTS _sycl_lines)
      string(REGEX MATCH "__(LIB)?SYCL_([A-Z]+)_VERSION +([0-9]+)" _sycl_match "${_sycl_line}")
      set(_sycl_${CMAKE_MATCH_2} ${CMAKE_MATCH_3})
    endforeach()
    set(SYCL_VERSION "${_sycl_MAJOR}.${_sycl_MINOR}.${_sycl_PATCH}")
    set(SYCL_COMPILER_VERSION "${_sycl_COMPILER}")
  endif()
endif()

string(REPLACE ";" ", " _sycl_looked "${_sycl_roots}")
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(SYCL
    REQUIRED_VARS SYCL_LIBRARY SYCL_INCLUDE_DIR
    VERSION_VAR SYCL_VERSION
    FAIL_MESSAGE
    "Could not find SYCL: include/sycl/sycl.hpp and lib/libsycl.so are in none of: ${_sycl_looked}. \
Set SYCL_ROOT to the folder of a oneAPI compiler or to the Python environment \
that the PyPI package intel-sycl-rt is installed in, or build without XPU: \
USE_XPU=OFF")
