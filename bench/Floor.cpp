#include "Floor.h"

#include "Harness.h"

namespace bench {

// Sixteen of them, each with a look-up of its own: the address of one that is
// read sixteen times in a row would be looked up once. They must be visible,
// or one look-up would serve all.
#define FOR_EACH(X) \
  X(0)              \
  X(1)              \
  X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15)

#define DEFINE(i) BENCH_EXPORT thread_local int floor_variable_##i = i;
FOR_EACH (DEFINE)
#undef DEFINE

  namespace {

  __attribute__((noinline)) void accessSixteen() {
#define ACCESS(i) sink(int(floor_variable_##i));
    FOR_EACH (ACCESS)
#undef ACCESS
  }

  } // namespace

void accessThreadLocal(size_t n) {
  for (size_t i = 0; i < n; i += 16) {
    accessSixteen();
  }
}

void emptyFunction() {
  asm volatile("");
}

size_t arithmetic(size_t n) {
  size_t x = n;
  for (size_t i = 0; i < n; ++i) {
    x = x * 6364136223846793005u + 1442695040888963407u;
    asm volatile("" : "+r"(x)); // one step after the other
  }
  return x;
}

} // namespace bench
