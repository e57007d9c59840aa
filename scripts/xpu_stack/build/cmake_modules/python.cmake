# The extension modules of the Python package, injected into PyTorch's own CMake
# through CMAKE_PROJECT_Torch_INCLUDE. PyTorch makes them in setup.py, from the
# same sources; here they are targets, so that ninja knows when they are done.

function(xpu_stack_extension name source)
  set(target "xpu_stack${name}")
  add_library(${target} MODULE "${CMAKE_SOURCE_DIR}/torch/csrc/${source}")
  target_link_libraries(${target} PRIVATE torch_python)
  set_target_properties(${target} PROPERTIES
    PREFIX ""
    OUTPUT_NAME "${name}"
    SUFFIX "${PYTHON_MODULE_EXTENSION}"
    LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/extensions")
endfunction()

function(xpu_stack_extensions)
  if(TARGET torch_python)
    xpu_stack_extension(_C stub.c)
    xpu_stack_extension(_C_flatbuffer stub_with_flatbuffer.c)
  endif()
endfunction()

cmake_language(DEFER DIRECTORY "${CMAKE_SOURCE_DIR}" CALL xpu_stack_extensions)
