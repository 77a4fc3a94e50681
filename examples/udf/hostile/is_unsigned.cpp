// Harmless, but unsigned native code.
extern "C" void dynamic_dataset() { lib.getData<unsigned char>("Secret")[0] = 1; }
