# Options of compilers: GCC would spend an eighth of its time in collecting garbage of
# less than 1 GB.
set(XPU_STACK_LESS_GARBAGE
  "$<$<COMPILE_LANG_AND_ID:CXX,GNU>:SHELL:--param ggc-min-expand=100>"
  "$<$<COMPILE_LANG_AND_ID:CXX,GNU>:SHELL:--param ggc-min-heapsize=1000000>")
