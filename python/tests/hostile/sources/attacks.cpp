// Every attack of a C++ function. The name of one is patched into the object in place of the dots; before the colon is
// when it strikes: `call`, or while the object is loaded (`ctor`, `static`), which HDF5-UDF did outside its sandbox.
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/xattr.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile char PATCHED[] = "HOSTILE-CASE:........................................";
static char CASE[64];
static uint64_t target_pid, target_address;
static volatile char *output_page;
static bool early;
static int process_of_load;
extern char **environ;

static const char *name_of_case() {
    for (size_t i = 0; i + 13 < sizeof PATCHED; i++) CASE[i] = PATCHED[i + 13];
    return CASE;
}
static bool is(const char *name) { return strcmp(strchr(CASE, ':') + 1, name) == 0; }
static bool when(const char *phase) { return strncmp(name_of_case(), phase, strlen(phase)) == 0 && CASE[strlen(phase)] == ':'; }
static std::string mark() { return std::string("/tmp/jail/marks/cpp-") + CASE; }
static bool holds_canary(int fd) {
    char text[256] = {0};
    return fd >= 0 && read(fd, text, sizeof text - 1) > 0 && strstr(text, "canary-in-file");
}
static void *thread(void *) { return nullptr; }
static volatile int sink;
__attribute__((noinline)) static int recurse(int n) {
    volatile char room[512];
    room[0] = char(n);
    return sink ? n : recurse(n + 1) + room[0];
}
static bool send_raw(const void *bytes, size_t size) { return send(3, bytes, size, MSG_NOSIGNAL) == ssize_t(size); }
static void at_exit() {
    for (;;) sink = 0;
}

static bool attack() {
    const char *secret = "/tmp/jail/home/secret.txt", *victim = "/tmp/jail/home/victim.txt";
    // Files.
    if (is("read_file")) return holds_canary(open(secret, O_RDONLY));
    if (is("dotdot")) return holds_canary(open("/usr/lib/../../tmp/jail/home/secret.txt", O_RDONLY));
    if (is("symlink")) return holds_canary(open("/tmp/jail/link", O_RDONLY));
    if (is("proc_root")) return holds_canary(open("/proc/self/root/tmp/jail/home/secret.txt", O_RDONLY));
    if (is("openat2")) {
        uint64_t how[3] = {O_RDONLY, 0, 0};
        return holds_canary(int(syscall(SYS_openat2, AT_FDCWD, secret, how, sizeof how)));
    }
    if (is("open_for_writing")) return open(victim, O_RDWR) >= 0;
    if (is("create")) return open(mark().c_str(), O_CREAT | O_WRONLY, 0600) >= 0;
    if (is("unlink")) return unlink("/tmp/jail/home/spare.txt") == 0;
    if (is("chmod")) return chmod(victim, 0644) == 0;
    if (is("read_key")) return open("/tmp/jail/home/.config/hyperchunk/keys/self.key", O_RDONLY) >= 0;
    if (is("append")) return open(victim, O_WRONLY | O_APPEND) >= 0;
    if (is("truncate")) return truncate(victim, 3) == 0;
    if (is("rename")) return rename("/tmp/jail/home/spare-cpp.txt", "/tmp/jail/home/moved-cpp.txt") == 0;
    if (is("link")) return link(victim, mark().c_str()) == 0;
    if (is("make_symlink")) return symlink(secret, mark().c_str()) == 0;
    if (is("mkdir")) return mkdir(mark().c_str(), 0700) == 0;
    if (is("mkfifo")) return mkfifo(mark().c_str(), 0600) == 0;
    if (is("utime")) return utimes(victim, nullptr) == 0;
    if (is("setxattr")) return setxattr(victim, "user.x", "x", 1, 0) == 0;
    if (is("place")) {
        char where[256];
        return getcwd(where, sizeof where) && strcmp(where, "/") != 0;
    }
    if (is("stat")) {
        struct stat s;
        return stat(secret, &s) == 0;
    }
    if (is("environ_file")) return open("/proc/self/environ", O_RDONLY) >= 0;
    // Network.
    if (is("tcp")) {
        sockaddr_in to = {};
        to.sin_family = AF_INET, to.sin_port = htons(4242), to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        return connect(socket(AF_INET, SOCK_STREAM, 0), (sockaddr *)&to, sizeof to) == 0;
    }
    if (is("udp")) {
        sockaddr_in to = {};
        to.sin_family = AF_INET, to.sin_port = htons(4242), to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        return sendto(socket(AF_INET, SOCK_DGRAM, 0), "x", 1, 0, (sockaddr *)&to, sizeof to) == 1;
    }
    if (is("unix")) return socket(AF_UNIX, SOCK_STREAM, 0) >= 0;
    if (is("netlink")) return socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE) >= 0;
    if (is("unix_abstract")) {
        sockaddr_un to = {};
        to.sun_family = AF_UNIX;
        memcpy(to.sun_path, "\0hyperchunk", 11);
        return bind(socket(AF_UNIX, SOCK_DGRAM, 0), (sockaddr *)&to, sizeof(sa_family_t) + 11) == 0;
    }
    if (is("dns")) {
        addrinfo *found = nullptr;
        return getaddrinfo("localhost", "80", nullptr, &found) == 0;
    }
    // Processes.
    if (is("spawn")) {
        std::string file = mark();
        const char *argv[] = {"touch", file.c_str(), nullptr};
        pid_t pid;
        return posix_spawn(&pid, "/usr/bin/touch", nullptr, nullptr, (char *const *)argv, environ) == 0;
    }
    if (is("sigqueue_host")) return sigqueue(pid_t(target_pid), 0, sigval{}) == 0;
    if (is("system")) return system(("touch '" + mark() + "'").c_str()) == 0;
    if (is("fork")) {
        int pid = int(syscall(SYS_fork));
        if (pid == 0) _exit(0);
        return pid > 0;
    }
    if (is("fork_bomb")) {
        int n = 0;
        for (; n < 50; n++) {
            int pid = fork();
            if (pid == 0) _exit(0);
            if (pid < 0) break;
        }
        return n == 50;
    }
    if (is("thread")) {
        pthread_t t;
        return pthread_create(&t, nullptr, thread, nullptr) == 0;
    }
    if (is("execve")) {
        std::string file = mark();
        const char *argv[] = {"touch", file.c_str(), nullptr};
        execve("/usr/bin/touch", (char *const *)argv, environ);
        return false;
    }
    if (is("memfd_exec")) {
        int fd = int(syscall(SYS_memfd_create, "x", 0));
        return fd >= 0;
    }
    if (is("kill_host")) return kill(pid_t(target_pid), 0) == 0;
    if (is("pidfd_host")) return syscall(SYS_pidfd_open, target_pid, 0) >= 0;
    if (is("ptrace")) return ptrace(PTRACE_TRACEME, 0, 0, 0) == 0;
    if (is("vm_read_host")) {
        char text[32] = {0};
        iovec here = {text, 24}, there = {(void *)target_address, 24};
        return syscall(SYS_process_vm_readv, target_pid, &here, 1, &there, 1, 0) == 24 && strstr(text, "canary");
    }
    if (is("proc_mem_host")) return open(("/proc/" + std::to_string(target_pid) + "/mem").c_str(), O_RDWR) >= 0;
    if (is("write_host_address")) {
        *(volatile char *)target_address = 'X';
        return *(volatile char *)target_address == 'X';
    }
    // The kernel and the sandbox itself.
#ifdef __x86_64__
    if (is("int80")) {
        int result = 20; // getpid
        asm volatile("int $0x80" : "+a"(result) : : "memory");
        return result > 0;
    }
    if (is("x32")) return syscall(0x40000000 | SYS_getpid) >= -1;
#endif
    if (is("io_uring")) {
        char params[256] = {0};
        return syscall(SYS_io_uring_setup, 4, params) >= 0 || errno == EPERM || errno == ENOSYS;
    }
    if (is("userfaultfd")) return syscall(SYS_userfaultfd, 1) >= 0 || errno == EPERM;
    if (is("perf")) return syscall(SYS_perf_event_open, nullptr, 0, -1, -1, 0) >= -1;
    if (is("type_ahead")) {
        char byte = 'x';
        return ioctl(0, TIOCSTI, &byte) == 0 || ioctl(1, TIOCSTI, &byte) == 0 || ioctl(2, TIOCSTI, &byte) == 0;
    }
    if (is("seal")) {
        for (int fd = 3; fd < 256; fd++)
            if (fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE) == 0) return true;
        return false;
    }
    if (is("keyctl")) return syscall(SYS_keyctl, 0, -3, 1) >= 0;
    if (is("bpf")) return syscall(SYS_bpf, 0, nullptr, 0) >= -1;
    if (is("personality")) return syscall(SYS_personality, 0xffffffff) >= 0;
    if (is("unshare")) return unshare(CLONE_NEWUSER) == 0;
    if (is("mount")) return mount("none", "/mnt", "tmpfs", 0, nullptr) >= -1;
    if (is("prctl")) return prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) == 0;
    if (is("raise_limits")) {
        rlimit limit = {1 << 20, 1 << 20};
        return setrlimit(RLIMIT_CORE, &limit) >= -1;
    }
    if (is("sigsys_handler")) {
        struct sigaction ignore = {};
        ignore.sa_handler = SIG_IGN;
        return sigaction(SIGSYS, &ignore, nullptr) == 0;
    }
    if (is("sigsys_blocked")) {
        sigset_t all;
        sigfillset(&all);
        sigprocmask(SIG_BLOCK, &all, nullptr);
        return socket(AF_UNIX, SOCK_STREAM, 0) >= 0;
    }
    if (is("sigsys_stack")) {
        stack_t nowhere = {};
        nowhere.ss_sp = (void *)64, nowhere.ss_size = 1 << 16;
        sigaltstack(&nowhere, nullptr);
        return socket(AF_UNIX, SOCK_STREAM, 0) >= 0;
    }
    if (is("executable_memory"))
        return mmap(nullptr, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED;
    if (is("shmget")) return syscall(SYS_shmget, 0, 4096, 01600) >= 0;
    // The shared memory.
    if (is("resize")) {
        for (int fd = 0; fd < 256; fd++)
            if (ftruncate(fd, 0) == 0) return true;
        return false;
    }
    if (is("punch_hole")) {
        for (int fd = 3; fd < 256; fd++)
            if (fallocate(fd, 3, 0, 4096) == 0) return true;
        return false;
    }
    if (is("remove_page")) {
        madvise((void *)((uintptr_t)output_page & ~4095ul), 4096, MADV_REMOVE);
        return false;
    }
    if (is("map_over")) {
        char *page = (char *)((uintptr_t)output_page & ~4095ul);
        mmap(page, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        return false;
    }
    if (is("forge_status")) {
        volatile uint32_t *page = (volatile uint32_t *)(((uintptr_t)output_page & ~4095ul) - 4096);
        page[1] = 0x7fffffff, page[2] = 1;
        abort();
    }
    // What it should not have got.
    if (is("environment")) {
        for (char **e = environ; *e; e++)
            if (strstr(*e, "canary") || strstr(*e, "HOSTILE")) return true;
        return false;
    }
    if (is("descriptors")) {
        for (int fd = 4; fd < 1024; fd++)
            if (lseek(fd, 0, SEEK_CUR) >= 0 || errno != EBADF) return true;
        return false;
    }
    // Limits.
    if (is("spin"))
        for (;;) sink = 0;
    if (is("sleep"))
        for (;;) sleep(1000);
    if (is("memory_bomb")) {
        size_t total = 0;
        while (total < (768ul << 20)) {
            char *block = (char *)malloc(16 << 20);
            if (!block) return false;
            memset(block, 1, 16 << 20);
            total += 16 << 20;
        }
        return true;
    }
    if (is("map_much")) return mmap(nullptr, 4ul << 30, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) != MAP_FAILED;
    if (is("recursion")) return recurse(0) > 0;
    if (is("flood")) {
        char block[65536];
        memset(block, 'F', sizeof block);
        for (int i = 0; i < 16384; i++)
            if (write(1, block, sizeof block) < 0 && errno != EAGAIN) return false;
        return false;
    }
    // Endings.
    if (is("abort")) abort();
    if (is("null")) *(volatile int *)nullptr = 1;
    if (is("exit")) exit(0);
    if (is("_exit")) _exit(0);
    if (is("exit_loop")) {
        atexit(at_exit);
        exit(0);
    }
    if (is("throw_int")) throw 7;
    // The control socket.
    if (is("junk")) return send_raw("junk", 4) && false;
    if (is("large_junk")) {
        std::string text(100000, 'j');
        return send_raw(text.data(), text.size()) && false;
    }
    if (is("forged_ready")) {
        uint32_t words[] = {0x81, 0xff, 99, 0, 0, 2};
        return send_raw(words, sizeof words) && false;
    }
    if (is("forged_undecoded")) {
        uint32_t words[] = {0x88, 1};
        return send_raw(words, sizeof words) && false;
    }
    if (is("forged_done_spin")) {
        uint32_t words[] = {0x83, 1};
        send_raw(words, sizeof words);
        for (;;) sink = 0;
    }
    if (is("sent_descriptors")) {
        char control[CMSG_SPACE(sizeof(int))] = {0}, byte = 'x';
        iovec io = {&byte, 1};
        msghdr header = {};
        header.msg_iov = &io, header.msg_iovlen = 1, header.msg_control = control, header.msg_controllen = sizeof control;
        cmsghdr *message = CMSG_FIRSTHDR(&header);
        message->cmsg_level = SOL_SOCKET, message->cmsg_type = SCM_RIGHTS, message->cmsg_len = CMSG_LEN(sizeof(int));
        *(int *)CMSG_DATA(message) = 0;
        for (int i = 0; i < 20; i++) sendmsg(3, &header, MSG_NOSIGNAL | MSG_DONTWAIT);
        return false;
    }
    if (is("close_socket")) {
        close(3);
        for (;;) sleep(1000);
    }
    if (is("escapes")) throw std::runtime_error("\x1b]52;c;aGk=\x07 \x1b[31m \r\n \xe2\x80\xae end\xff\xfe");
    if (is("long_error")) throw std::runtime_error(std::string(100000, 'e'));
    if (is("none")) return false;
    throw std::runtime_error("there is no such attack");
}

__attribute__((constructor)) static void constructor() {
    process_of_load = getpid();
    if (when("ctor")) early = attack();
}
static struct Object {
    Object() {
        if (when("static")) early = attack();
    }
} object;

extern "C" void dynamic_dataset() {
    double *out = lib.getData<double>("out");
    uint64_t *target = lib.getData<uint64_t>("target");
    output_page = (volatile char *)out;
    target_pid = target[0], target_address = target[1];
    out[1] = getpid(), out[2] = process_of_load, out[3] = 1;
    if (when("call")) early = attack();
    out[0] = early ? 77 : 0;
}
