// The same in C++. Signed by the reader, so that it runs: the sandbox is the same for one's own functions.
#include <sys/socket.h>

extern "C" void dynamic_dataset()
{
    lib.getData<unsigned char>("Secret")[0] = socket(AF_INET, SOCK_STREAM, 0);
}
