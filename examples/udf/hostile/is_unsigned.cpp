// Harmless, but native code that nobody signed.
extern "C" void dynamic_dataset() { lib.getData<unsigned char>("Secret")[0] = 1; }
