# The SYCL runtime as an imported target, torch::xpurt.

# FindSYCL is here in the source tree and in an installed PyTorch alike.
list(APPEND CMAKE_MODULE_PATH "${CMAKE_CURRENT_LIST_DIR}/../Modules")
find_package(SYCL REQUIRED MODULE)
message(STATUS "SYCL: ${SYCL_LIBRARY} (version ${SYCL_VERSION}, of ${SYCL_COMPILER_VERSION})")

if(NOT TARGET torch::xpurt)
  add_library(torch::xpurt INTERFACE IMPORTED GLOBAL)
  target_include_directories(torch::xpurt SYSTEM INTERFACE ${SYCL_INCLUDE_DIRS})
  target_link_libraries(torch::xpurt INTERFACE ${SYCL_LIBRARY})
  # Only SYCL's host interface is used: no SYCL compiler is needed.
  target_compile_definitions(torch::xpurt INTERFACE
      SYCL_DISABLE_FSYCL_SYCLHPP_WARNING)
endif()
