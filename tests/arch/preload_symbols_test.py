# SPDX-License-Identifier: Apache-2.0
"""Holds what libopmeter_preload.so may need and what it shows: undefined symbols within an
allow-list, no C++ runtime among its libraries, and exactly the hooks exported. A symbol too many
here means code that may call malloc, lock or throw inside somebody else's program.
Run by ctest; argument: the library."""

import re
import subprocess
import sys

LIBRARY = sys.argv[1]

UNDEFINED = {
    # the linker's own, weak
    "_ITM_deregisterTMCloneTable", "_ITM_registerTMCloneTable", "__cxa_finalize", "__gmon_start__",
    # memory and strings
    "memchr", "memcmp", "memcpy", "memmove", "memset", "strchr", "strcmp", "strlen", "strncmp",
    "strnlen", "strrchr", "strstr",
    # the kernel
    "__errno_location", "clock_gettime", "close", "fstat", "getpid", "getrusage", "madvise", "mmap", "munmap",
    "nanosleep", "open", "prctl", "read", "readlink", "sched_yield", "syscall", "sysconf", "write",
    "getauxval", "gettid", "kill", "mprotect", "mremap", "fork", "vfork",
    # threads: keys with destructors only; no mutex of libpthread
    "pthread_key_create", "pthread_setspecific", "pthread_getspecific", "pthread_atfork",
    "__register_atfork",
    # where the thread's own stack lies (frame pointers are followed only there)
    "__libc_stack_end", "pthread_attr_destroy", "pthread_attr_getstack", "pthread_getattr_np",
    "pthread_self",
    # the loader; _dl_find_object (glibc 2.35) finds unwind tables without its lock
    "_dl_find_object",
    "dl_iterate_phdr", "dladdr", "dlerror", "dlopen", "dlsym", "dlvsym", "__tls_get_addr",
    "_r_debug",
    # giving up
    "abort", "__stack_chk_fail",
}
# libunwind's public and local-only names carry the architecture.
UNDEFINED_PATTERN = re.compile(r"^(unw_\w+|_U(L)?(x86_64|aarch64)_\w+)$")

EXPORTED = {
    "malloc", "calloc", "realloc", "reallocarray", "free", "posix_memalign", "aligned_alloc",
    "memalign", "valloc", "pvalloc", "free_sized", "free_aligned_sized",
    "opm_api_v1", "dlclose", "mmap", "mmap64", "munmap", "mremap", "brk", "sbrk",
    "execve", "execv", "execvp", "execvpe", "execl", "execlp", "execle", "fexecve",
    "prctl", "pipe2",
    # operator new, new[]: plain, nothrow, aligned, aligned nothrow
    "_Znwm", "_ZnwmRKSt9nothrow_t", "_ZnwmSt11align_val_t", "_ZnwmSt11align_val_tRKSt9nothrow_t",
    "_Znam", "_ZnamRKSt9nothrow_t", "_ZnamSt11align_val_t", "_ZnamSt11align_val_tRKSt9nothrow_t",
    # operator delete, delete[]: plain, nothrow, sized, aligned, sized aligned, aligned nothrow
    "_ZdlPv", "_ZdlPvRKSt9nothrow_t", "_ZdlPvm", "_ZdlPvSt11align_val_t",
    "_ZdlPvmSt11align_val_t", "_ZdlPvSt11align_val_tRKSt9nothrow_t",
    "_ZdaPv", "_ZdaPvRKSt9nothrow_t", "_ZdaPvm", "_ZdaPvSt11align_val_t",
    "_ZdaPvmSt11align_val_t", "_ZdaPvSt11align_val_tRKSt9nothrow_t",
}

NEEDED = re.compile(r"^(libc\.so\.6|libunwind\.so\.\d+|ld-linux-[\w-]+\.so\.\d+)$")


def lines_of(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


def dynamic_symbols(which):
    """Names without their versions."""
    names = set()
    for line in lines_of("nm", "-D", which, LIBRARY):
        names.add(line.split()[-1].split("@")[0])
    return names


def main():
    problems = []
    for name in sorted(dynamic_symbols("--undefined-only")):
        if name not in UNDEFINED and not UNDEFINED_PATTERN.match(name):
            problems.append(f"needs {name}, which is not on the list of this test")
    exported = dynamic_symbols("--defined-only")
    problems += [f"exports {name}" for name in sorted(exported - EXPORTED)]
    problems += [f"does not export {name}" for name in sorted(EXPORTED - exported)]
    for line in lines_of("readelf", "-d", LIBRARY):
        match = re.search(r"\(NEEDED\).*\[(.*)\]", line)
        if match and not NEEDED.match(match.group(1)):
            problems.append(f"links {match.group(1)}")
    for problem in problems:
        print(f"{LIBRARY}: {problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
