#pragma once

#include <cstddef>

/// What the runtime's small calls are measured against.
///
/// Note [What a thread_local access costs]
/// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
/// Code of PyTorch lives in shared libraries. There the compiler turns an
/// access to a `thread_local` into a look-up of its address, by the default
/// model (global-dynamic), and a load. That is the floor here: in a shared
/// library, compiled as PyTorch is, with nothing but these two in the measured
/// loop (no call of a function around them, no hoisting of the address).
///
/// In the main program the linker turns the same access into a single load,
/// which a superscalar core does several times per cycle. A function of another
/// library cannot be called in that time, whatever it does; both that access
/// and the call of an empty function are measured beside each figure.

namespace bench {

#define BENCH_EXPORT __attribute__((visibility("default")))

/// Reads a thread_local of this library `n` times (rounded up to 16).
BENCH_EXPORT void accessThreadLocal(size_t n);

/// Does nothing; in another library than its caller.
BENCH_EXPORT void emptyFunction();

/// Does `n` steps of arithmetic that nobody can do for it faster.
BENCH_EXPORT size_t arithmetic(size_t n);

} // namespace bench
