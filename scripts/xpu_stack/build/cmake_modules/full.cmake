# What a build of everything needs beside PyTorch's own CMake, injected into it
# through CMAKE_PROJECT_Torch_INCLUDE.
#
# The header that flatc generates belongs to one release of flatbuffers. PyTorch
# keeps the one of the release that it bundles; where the bundled release is left
# out, the header is generated anew for the installed one. It is made in the build
# folder and found first, so that the checkout stays as it is.

function(xpu_stack_flatbuffers)
  set(folder "${CMAKE_SOURCE_DIR}/torch/csrc/jit")
  set(schema "${folder}/serialization/mobile_bytecode.fbs")
  if(NOT EXISTS "${schema}")
    return() # a release without the format
  endif()
  find_program(XPU_STACK_FLATC flatc REQUIRED)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${schema}")
  set(made "${CMAKE_BINARY_DIR}/flatc")
  set(header mobile_bytecode_generated.h)
  execute_process(
    COMMAND "${XPU_STACK_FLATC}" --cpp --gen-mutable --scoped-enums -o "${made}/new" "${schema}"
    COMMAND_ERROR_IS_FATAL ANY)
  # A header that is the same keeps its time, and what includes it its object.
  configure_file("${made}/new/${header}"
    "${made}/include/torch/csrc/jit/serialization/${header}" COPYONLY)
  # Of a source alone, since a target's own folders come before a directory's.
  set_source_files_properties(
    "${folder}/mobile/flatbuffer_loader.cpp"
    "${folder}/serialization/flatbuffer_serializer.cpp"
    TARGET_DIRECTORY torch_cpu
    PROPERTIES INCLUDE_DIRECTORIES "${made}/include")
endfunction()

if(NOT EXISTS "${CMAKE_SOURCE_DIR}/third_party/flatbuffers/include")
  cmake_language(DEFER DIRECTORY "${CMAKE_SOURCE_DIR}" CALL xpu_stack_flatbuffers)
endif()

# oneDNN is bundled as sources, which a source package leaves out. PyTorch's own search
# is for these sources, and is skipped where the installed library is known.

if(USE_MKLDNN AND NOT EXISTS "${CMAKE_SOURCE_DIR}/third_party/ideep/include")
  find_library(XPU_STACK_DNNL dnnl REQUIRED)
  find_path(XPU_STACK_IDEEP ideep.hpp REQUIRED)
  set(MKLDNN_FOUND TRUE)
  set(MKLDNN_LIBRARIES "${XPU_STACK_DNNL}")
  set(MKLDNN_INCLUDE_DIR "${XPU_STACK_IDEEP}")
endif()

include("${CMAKE_CURRENT_LIST_DIR}/garbage.cmake")
