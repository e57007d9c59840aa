# GCC would spend an eighth of its time in collecting garbage of less than 1 GB.
add_compile_options(
  "$<$<COMPILE_LANG_AND_ID:CXX,GNU>:SHELL:--param ggc-min-expand=100>"
  "$<$<COMPILE_LANG_AND_ID:CXX,GNU>:SHELL:--param ggc-min-heapsize=1000000>")
