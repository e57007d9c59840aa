"""The modes and the sanitizers of a build."""

import enum


class Mode(enum.Enum):
    """What is compiled: what the series alone brings, or everything."""

    FAST = "fast"
    FULL = "full"


class Sanitizer(enum.Enum):
    """What the compiler adds to find errors at run time."""

    NONE = ""
    THREAD = "thread"  # ThreadSanitizer
    ADDRESS = "address"  # AddressSanitizer, with leaks and undefined behaviour

    @property
    def flags(self) -> str:
        """For compiling and linking; with -O1 reports have good stacks."""
        # GCC takes the checks of std::optional for uses of what it may not hold.
        common = "-g1 -fno-omit-frame-pointer -Wno-maybe-uninitialized"
        if self is Sanitizer.THREAD:
            return f"{common} -fsanitize=thread"
        if self is Sanitizer.ADDRESS:
            # vptr compares type infos across libraries that hide theirs
            kinds = "-fsanitize=address,undefined -fno-sanitize=vptr"
            return f"{common} {kinds} -fno-sanitize-recover=undefined"
        return ""
