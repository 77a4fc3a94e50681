"""Every attack of a Python function.

CASE is put in; before the colon is when it strikes: in `dynamic_dataset` (`call`) or in the body of the module
(`load`), which HDF5-UDF ran in the reading process.
"""

# ruff: noqa: B007, N818, PTH101, PTH102, PTH104, PTH108, PTH109, PTH116, PTH123, PTH208, PTH211, SIM105
import ctypes
import os

CASE = "@CASE@"
PHASE, NAME = CASE.split(":")
HOME = "/tmp/jail/home/"
SECRET, VICTIM, SPARE = HOME + "secret.txt", HOME + "victim.txt", HOME + "spare.txt"
MARK = "/tmp/jail/marks/py-" + CASE
TARGET = [os.getpid(), 0]
LIBC = ctypes.CDLL(None, use_errno=True)


def holds_canary(text):
    return "canary-in-file" in text


class Attacks:
    def none():
        return False

    def read_file():
        return holds_canary(open(SECRET).read())

    def dotdot():
        return holds_canary(open("/usr/lib/../../tmp/jail/home/secret.txt").read())

    def symlink():
        return holds_canary(open("/tmp/jail/link").read())

    def proc_root():
        return holds_canary(open("/proc/self/root" + SECRET).read())

    def open_for_writing():
        return open(VICTIM, "r+").writable()

    def create():
        return open(MARK, "w").writable()

    def unlink():
        os.unlink(SPARE)
        return True

    def chmod():
        os.chmod(VICTIM, 0o644)
        return True

    def read_key():
        return "seed" in open(HOME + ".config/hyperchunk/keys/self.key").read()

    def append():
        return open(VICTIM, "a").writable()

    def truncate():
        os.truncate(VICTIM, 3)
        return True

    def rename():
        os.rename(HOME + "spare-py.txt", HOME + "moved-py.txt")
        return True

    def link():
        os.link(VICTIM, MARK)
        return True

    def make_symlink():
        os.symlink(SECRET, MARK)
        return True

    def mkdir():
        os.mkdir(MARK)
        return True

    def mkfifo():
        os.mkfifo(MARK)
        return True

    def utime():
        os.utime(VICTIM, (1, 1))
        return True

    def setxattr():
        return LIBC.setxattr(VICTIM.encode(), b"user.x", b"x", 1, 0) == 0

    def place():
        return os.getcwd() != "/"

    def stat():
        return os.stat(SECRET).st_size > 0

    def listdir():
        return bool(os.listdir("/"))

    def openat2():
        how = (ctypes.c_uint64 * 3)(0, 0, 0)
        fd = LIBC.syscall(437, -100, SECRET.encode(), how, 24)
        if fd < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        return True

    def tcp():
        import socket

        with socket.socket() as one:
            one.connect(("127.0.0.1", 4242))
        return True

    def udp():
        import socket

        return socket.socket(type=socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", 4242)) == 1

    def netlink():
        return LIBC.socket(16, 3, 0) >= 0

    def unix_abstract():
        return LIBC.socket(1, 2, 0) >= 0

    def dns():
        import socket

        return bool(socket.getaddrinfo("localhost", 80))

    def ctypes_socket():
        return LIBC.socket(1, 1, 0) >= 0

    def system():
        return os.system(f"touch '{MARK}'") == 0

    def ctypes_system():
        return LIBC.system(f"touch '{MARK}'".encode()) == 0

    def subprocess():
        import subprocess

        return subprocess.run(["touch", MARK]).returncode == 0

    def fork():
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        return pid > 0

    def spawn():
        return os.posix_spawn("/usr/bin/touch", ["touch", MARK], {}) > 0

    def execve():
        os.execv("/usr/bin/touch", ["touch", MARK])

    def thread():
        import threading

        one = threading.Thread(target=int)
        one.start()
        return True

    def thread_bomb():
        import _thread
        import time

        for _ in range(100):
            _thread.start_new_thread(time.sleep, (0.2,))
        return True

    def kill_host():
        os.kill(TARGET[0], 0)
        return True

    def ptrace():
        return LIBC.ptrace(0, 0, 0, 0) == 0

    def vm_read_host():
        text = ctypes.create_string_buffer(24)
        here = (ctypes.c_uint64 * 2)(ctypes.addressof(text), 24)
        there = (ctypes.c_uint64 * 2)(TARGET[1], 24)
        return LIBC.process_vm_readv(TARGET[0], here, 1, there, 1, 0) == 24 and b"canary" in text.raw

    def write_host_address():
        ctypes.memset(TARGET[1], 88, 1)
        return True

    def proc_mem_host():
        return open(f"/proc/{TARGET[0]}/mem", "rb").readable()

    def prctl():
        return LIBC.prctl(4, 1, 0, 0, 0) == 0

    def sigsys_handler():
        import signal

        signal.signal(signal.SIGSYS, signal.SIG_IGN)
        return True

    def sigsys_blocked():
        LIBC.sigfillset(mask := ctypes.create_string_buffer(128))
        LIBC.sigprocmask(0, mask, None)
        return LIBC.socket(1, 1, 0) >= 0

    def executable_memory():
        LIBC.mmap.restype = ctypes.c_ssize_t
        return LIBC.mmap(None, 4096, 7, 0x22, -1, 0) != -1

    def memfd():
        return os.memfd_create("x") >= 0

    def environment():
        return any("canary" in f"{k}{v}" or "HOSTILE" in k for k, v in os.environ.items())

    def descriptors():
        for fd in range(4, 1024):
            try:
                os.lseek(fd, 0, 1)
            except OSError as error:
                if error.errno != 9:
                    return True
            else:
                return True
        return False

    def reader_objects():
        import gc
        import sys

        names = {name.partition(".")[0] for name in sys.modules}
        seen = any(isinstance(o, bytearray) and b"canary" in o for o in gc.get_objects())
        return seen or "h5py" in names

    def import_from_cwd():
        import evilmod

        return bool(evilmod)

    def shadowed_module():
        import colorsys

        return bool(colorsys)

    def spin():
        while True:
            pass

    def sleep():
        import time

        while True:
            try:
                time.sleep(1000)
            except BaseException:
                pass

    def catastrophic_regex():
        import re

        return bool(re.match("(a+)+$", "a" * 60 + "b"))

    def bytearray_bomb():
        return len(bytearray(768 << 20)) > 0

    def list_bomb():
        row = []
        for n in range(1 << 40):
            row.append(bytes(1 << 16))
        return True

    def integer_bomb():
        return (1 << (1 << 33)).bit_length() > 0

    def recursion():
        return Attacks.recursion()

    def native_recursion():
        import sys

        sys.setrecursionlimit(1 << 30)
        deep = []
        for _ in range(10_000_000):
            deep = [deep]
        return repr(deep) == ""

    def compile_bomb():
        return bool(compile("(" * 100_000 + ")" * 100_000, "x", "eval"))

    def flood():
        line = "F" * 65535
        for _ in range(16384):
            print(line)
        return False

    def raw_flood():
        block = b"F" * 65536
        for _ in range(16384):
            try:
                os.write(1, block)
            except BlockingIOError:
                pass
        return False

    def exit_0():
        import sys

        sys.exit(0)

    def os_exit():
        os._exit(0)

    def del_loop():
        class Guard:
            def __del__(self):
                while True:
                    pass

        Guard()

    def atexit_loop():
        import atexit

        def loop():
            while True:
                pass

        atexit.register(loop)
        atexit._run_exitfuncs()

    def error_loop():
        class Endless(Exception):
            def __str__(self):
                while True:
                    pass

        raise Endless

    def error_in_error():
        class Broken(Exception):
            def __str__(self):
                raise SystemExit(0)

        raise Broken

    def null():
        ctypes.string_at(0)

    def abort():
        os.abort()

    def escapes():
        raise ValueError("\x1b]52;c;aGk=\x07 \x1b[31m \r\n \u202e end \udcff")

    def long_error():
        raise ValueError("e" * 100_000)

    def settrace():
        import sys

        sys.settrace(lambda *a: None)
        return open(SECRET).readable()

    def pickle():
        import pickle

        return pickle.loads(b"cposix\nsystem\n(S'true'\ntR.") == 0

    def junk():
        LIBC.send(3, b"junk", 4, 0)
        return False

    def replace_lib():
        lib._slots.clear()
        return False


EARLY = getattr(Attacks, NAME)() if PHASE == "load" else False
PROCESS_OF_LOAD = os.getpid()


def dynamic_dataset():
    out, target = lib.getData("out"), lib.getData("target")
    TARGET[:] = int(target[0]), int(target[1])
    out[1], out[2], out[3] = os.getpid(), PROCESS_OF_LOAD, 1
    worked = getattr(Attacks, NAME)() if PHASE == "call" else EARLY
    out[0] = 77 if worked else 0
