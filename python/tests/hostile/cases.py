"""Attacks by functions: signer, language, phase, and the cause that the error must name."""

from __future__ import annotations

from dataclasses import dataclass

LIMIT = 2
"""Seconds that the jail's profiles give a function, of the clock and of the processor."""
SLACK = 6.0
"""What a stopped function may take longer."""
MEMORY = "256MiB"
DATA = "512MiB"

LATE = rf"limit of {LIMIT} s"
STOPPED = r"stopped: tried (a system call|system call \w+|to make memory)"
KILLED = r"stopped: tried a system call"
FILE = "PermissionError"
GONE = r"ended without a result"


def call(*names: str) -> str:
    """Returns the expected cause: one of these system calls."""
    return rf"stopped: tried system call ({'|'.join(names)})\b"


@dataclass(frozen=True)
class Case:
    """An attack by a function."""

    language: str
    phase: str
    attack: str
    cause: str | None
    """What the error must say; `None` where the function ends well and has gained nothing."""
    trust: str = "unsigned"
    works_without: bool = True
    """Whether the attack works without the sandbox, which a control then proves."""

    @property
    def name(self) -> str:
        """Name of the case, also of the mark that it would leave."""
        return f"{self.language}-{self.trust}-{self.phase}:{self.attack}"

    @property
    def file(self) -> str:
        """File name of the case."""
        return self.name.replace(":", "-") + ".h5"


# For each attack: the cause that the error names, and whether a control proves that it works without a sandbox.
PYTHON: dict[str, tuple[str | None, bool]] = {
    "none": (None, False),
    "read_file": (FILE, True),
    "dotdot": (FILE, True),
    "symlink": (FILE, True),
    "proc_root": (FILE, True),
    "open_for_writing": (FILE, True),
    "create": (FILE, True),
    "unlink": (FILE, True),
    "chmod": (FILE, True),
    "read_key": (FILE, True),
    "append": (FILE, True),
    "truncate": (FILE, True),
    "rename": (FILE, True),
    "link": (FILE, True),
    "make_symlink": (FILE, True),
    "mkdir": (FILE, True),
    "mkfifo": (FILE, True),
    "utime": (FILE, True),
    "setxattr": (call("setxattr"), True),
    "place": (FILE, True),
    "stat": (FILE, True),
    "listdir": (FILE, True),
    "openat2": (FILE, True),
    "tcp": (call("socket"), True),
    "udp": (call("socket"), True),
    "netlink": (call("socket"), True),
    "unix_abstract": (call("socket"), True),
    "dns": (rf"LookupError|{FILE}|{call('socket')}", True),
    "ctypes_socket": (call("socket"), True),
    "system": (STOPPED, True),
    "ctypes_system": (STOPPED, True),
    "subprocess": (r"ModuleNotFoundError|ImportError", True),
    "fork": (call("clone", "fork"), True),
    "spawn": (STOPPED, True),
    "execve": (KILLED, True),
    "thread": (call("clone") + "|RuntimeError", True),
    "thread_bomb": (call("clone") + "|RuntimeError", True),
    "kill_host": (call("kill"), True),
    "ptrace": (KILLED, True),
    "vm_read_host": (KILLED, True),
    "write_host_address": ("SIGSEGV", True),
    "proc_mem_host": (FILE, True),
    "prctl": (call("prctl"), True),
    "sigsys_handler": (FILE, True),
    "sigsys_blocked": (call("socket"), True),
    "executable_memory": ("memory executable", True),
    "memfd": (call("memfd_create"), True),
    "environment": (None, True),
    "descriptors": (None, True),
    "reader_objects": (None, False),
    "import_from_cwd": (r"ImportError|ModuleNotFoundError|PermissionError", False),
    "shadowed_module": (r"ImportError|ModuleNotFoundError|PermissionError", False),
    "spin": (LATE, True),
    "sleep": (LATE, True),
    "catastrophic_regex": (LATE, True),
    "bytearray_bomb": (rf"MemoryError|{LATE}", True),
    "list_bomb": (rf"MemoryError|{LATE}", False),
    "integer_bomb": (rf"MemoryError|OverflowError|{LATE}", False),
    "recursion": ("RecursionError", False),
    "native_recursion": (rf"RecursionError|MemoryError|SIGSEGV|{LATE}", False),
    "compile_bomb": (rf"MemoryError|SyntaxError|RecursionError|{LATE}", False),
    "flood": (None, False),
    "raw_flood": (None, False),
    "exit_0": ("SystemExit", False),
    "os_exit": (GONE, False),
    "del_loop": (LATE, True),
    "atexit_loop": (LATE, True),
    "error_loop": (LATE, False),
    "error_in_error": (r"SystemExit|exception str\(\) failed|Broken", False),
    "null": ("SIGSEGV", False),
    "abort": (r"signal 6", False),
    "escapes": ("ValueError|UnicodeEncodeError", False),
    "long_error": ("ValueError: eee", False),
    "settrace": (FILE, True),
    "pickle": (rf"ImportError|{STOPPED}", True),
    "junk": ("invalid message", False),
    "replace_lib": (None, False),
}
PYTHON_EARLY = (
    "read_file", "create", "tcp", "system", "fork", "execve", "environment", "descriptors", "reader_objects", "spin",
    "sleep", "bytearray_bomb", "os_exit", "junk",
)  # fmt: skip

LUA: dict[str, tuple[str | None, bool]] = {
    "none": (None, False),
    "read_file": (call("openat", "open"), False),
    "dotdot": (call("openat", "open"), False),
    "symlink": (call("openat", "open"), False),
    "open_for_writing": (call("openat", "open"), False),
    "create": (call("openat", "open"), False),
    "unlink": (call("unlink", "unlinkat"), False),
    "chmod": (call("chmod", "fchmodat"), False),
    "access": (call("access", "faccessat"), False),
    "rename": (call("rename", "renameat", "renameat2"), False),
    "make_symlink": (call("symlink", "symlinkat"), False),
    "mkfifo": (call("mknod", "mknodat"), False),
    "io_library": (r"global 'io'", False),
    "os_library": (r"global 'os'", False),
    "load_library": (rf"{STOPPED}|cannot open", False),
    "require": (r"evilmod", False),
    "tcp": (call("socket"), False),
    "unix": (call("socket"), False),
    "system": (STOPPED, False),
    "fork": (call("clone", "fork"), False),
    "execve": (KILLED, False),
    "kill_host": (call("kill"), False),
    "write_host_address": ("SIGSEGV", False),
    "wild_pointer": ("SIGSEGV", False),
    "environment": (None, False),
    "descriptors": (None, False),
    "loadstring_bytecode": (None, False),
    "dump_bytecode": (r"dump", False),
    "dofile": (r"dofile", False),
    "spin": (LATE, False),
    "sleep": (LATE, False),
    "string_loop": (LATE, False),
    "malloc_bomb": (None, False),
    "table_bomb": (rf"not enough memory|memory|{LATE}", False),
    "string_bomb": (rf"not enough memory|memory|{LATE}", False),
    "recursion": ("stack overflow", False),
    "coroutines": (r"stack overflow|not enough memory|memory|SIGSEGV|C stack", False),
    "flood": (None, False),
    "exit": (GONE, False),
    "_exit": (GONE, False),
    "gc_loop": (LATE, False),
    "gc_loop_at_exit": (rf"state is closed|{LATE}", False),
    "error_loop": (LATE, False),
    "error_object": (r"table|error", False),
    "error_nil": (r"nil|error", False),
    "escapes": (r"52;c", False),
    "long_error": (r"eeee", False),
    "jit_on": (rf"{STOPPED}|^value$", False),
    "junk": ("invalid message", False),
    "close_socket": (GONE, False),
}
LUA_EARLY = ("read_file", "create", "tcp", "system", "fork", "execve", "spin", "sleep", "table_bomb", "_exit", "junk")

CPP: dict[str, tuple[str | None, bool]] = {
    "none": (None, False),
    "read_file": (call("openat"), True),
    "dotdot": (call("openat"), True),
    "symlink": (call("openat"), True),
    "proc_root": (call("openat"), True),
    "openat2": (call("openat2"), True),
    "open_for_writing": (call("openat"), True),
    "create": (call("openat"), True),
    "unlink": (call("unlink", "unlinkat"), True),
    "chmod": (call("chmod", "fchmodat"), True),
    "read_key": (call("openat"), True),
    "append": (call("openat"), True),
    "truncate": (call("truncate"), True),
    "rename": (call("rename", "renameat", "renameat2"), True),
    "link": (call("link", "linkat"), True),
    "make_symlink": (call("symlink", "symlinkat"), True),
    "mkdir": (call("mkdir", "mkdirat"), True),
    "mkfifo": (call("mknod", "mknodat"), True),
    "utime": (call("utimes", "utimensat"), True),
    "setxattr": (call("setxattr"), True),
    "place": (call("getcwd"), True),
    "stat": (None, True),
    "environ_file": (call("openat"), True),
    "tcp": (call("socket"), True),
    "udp": (call("socket"), True),
    "unix": (call("socket"), True),
    "netlink": (call("socket"), True),
    "unix_abstract": (call("socket"), True),
    "dns": (STOPPED, True),
    "spawn": (STOPPED, True),
    "sigqueue_host": (call("getuid", "rt_sigqueueinfo"), True),
    "system": (STOPPED, True),
    "fork": (call("fork"), True),
    "fork_bomb": (call("clone", "fork"), True),
    "thread": (call("clone", "rt_sigaction"), True),
    "execve": (KILLED, True),
    "memfd_exec": (call("memfd_create"), True),
    "kill_host": (call("kill"), True),
    "pidfd_host": (KILLED, True),
    "ptrace": (KILLED, True),
    "vm_read_host": (KILLED, True),
    "proc_mem_host": (call("openat"), True),
    "write_host_address": ("SIGSEGV", True),
    "int80": (KILLED, True),
    "x32": (KILLED, True),
    "io_uring": (KILLED, True),
    "userfaultfd": (KILLED, True),
    "perf": (KILLED, True),
    "type_ahead": (None, False),
    "seal": (call("fcntl"), False),
    "keyctl": (KILLED, False),
    "bpf": (KILLED, True),
    "personality": (KILLED, True),
    "unshare": (KILLED, True),
    "mount": (KILLED, True),
    "prctl": (call("prctl"), True),
    "raise_limits": (call("setrlimit", "prlimit64"), True),
    "sigsys_handler": (call("rt_sigaction"), True),
    "sigsys_blocked": (call("socket"), True),
    "sigsys_stack": (rf"{STOPPED}|SIGSEGV", True),
    "executable_memory": ("memory executable", True),
    "shmget": (call("shmget"), True),
    "resize": (call("ftruncate"), True),
    "punch_hole": (call("fallocate"), True),
    "remove_page": (call("madvise"), False),
    "map_over": (None, False),
    "forge_status": (r"stopped|crashed", False),
    "environment": (None, True),
    "descriptors": (None, True),
    "spin": (LATE, True),
    "sleep": (LATE, True),
    "memory_bomb": (None, True),
    "map_much": (None, True),
    "recursion": ("SIGSEGV", False),
    "flood": (None, False),
    "abort": ("signal 6", False),
    "null": ("SIGSEGV", False),
    "exit": (GONE, False),
    "_exit": (GONE, False),
    "exit_loop": (LATE, True),
    "throw_int": ("std::exception", False),
    "junk": ("invalid message", False),
    "large_junk": ("a message of 100000 bytes", False),
    "forged_ready": ("out of turn", False),
    "forged_undecoded": ("out of turn", False),
    "forged_done_spin": (None, False),
    "sent_descriptors": ("invalid message", False),
    "close_socket": (GONE, False),
    "escapes": ("52;c", False),
    "long_error": ("eeee", False),
}
CPP_EARLY = {
    "read_file": None,
    "create": STOPPED,
    "tcp": call("socket"),
    "system": STOPPED,
    "fork": call("fork"),
    "execve": KILLED,
    "environment": None,
    "spin": LATE,
    "sleep": LATE,
    "sigsys_handler": call("rt_sigaction"),
    "_exit": GONE,
    "abort": "signal 6",
}
CPP_STATIC = ("create", "tcp", "system", "fork", "spin", "abort")
OWN = ("read_file", "create", "tcp", "system", "fork", "execve", "kill_host", "environment", "spin")
STRANGE = (("py", PYTHON), ("lua", LUA))
# In a profile that grants other files for reading and writing, Landlock refuses accesses that pass the system call
# filter: the function continues and has gained nothing. The existence of a path is no secret there.
GRANTED_CAUSES: dict[str, dict[str, str | None]] = {
    "py": {"subprocess": FILE},
    "lua": dict.fromkeys(
        ("read_file", "dotdot", "symlink", "open_for_writing", "create", "unlink", "rename", "io_library"), None
    ),
    "cpp": dict.fromkeys(
        (
            "read_file", "dotdot", "symlink", "proc_root", "open_for_writing", "create", "unlink", "environ_file",
            "proc_mem_host", "resize", "read_key", "append", "rename", "mkdir",
        )
    ),
}  # fmt: skip
NO_SECRET = ("stat", "place", "access")


def _all() -> list[Case]:
    cases = [Case("py", "call", name, cause, works_without=works) for name, (cause, works) in PYTHON.items()]
    cases += [Case("py", "load", name, PYTHON[name][0], works_without=False) for name in PYTHON_EARLY]
    cases += [Case("py", "call", name, PYTHON[name][0], trust="self", works_without=False) for name in OWN]
    cases += [Case("lua", "call", name, cause, works_without=False) for name, (cause, _) in LUA.items()]
    cases += [Case("lua", "load", name, LUA[name][0], works_without=False) for name in LUA_EARLY]
    cases += [Case("lua", "call", name, LUA[name][0], trust="self", works_without=False) for name in OWN]
    cases += [Case("cpp", "call", name, cause, "self", works) for name, (cause, works) in CPP.items()]
    cases += [Case("cpp", "ctor", name, cause, "self", False) for name, cause in CPP_EARLY.items()]
    cases += [Case("cpp", "static", name, CPP_EARLY[name], "self", False) for name in CPP_STATIC]
    cases += [Case("cpp", "call", name, CPP[name][0], trust="default", works_without=False) for name in OWN]
    refused = r"refused to run: .*does not run c\+\+"
    cases += [Case("cpp", "ctor", "create", refused, trust, False) for trust in ("unsigned", "stranger")]
    cases += [Case(language, "call", "create", table["create"][0], "stranger", False) for language, table in STRANGE]
    for language, table in (("py", PYTHON), ("lua", LUA), ("cpp", CPP)):
        changed = GRANTED_CAUSES[language]
        cases += [
            Case(language, "call", name, changed.get(name, cause), "granted", False)
            for name, (cause, _) in table.items()
            if name not in NO_SECRET
        ]
    return cases


ALL = _all()
