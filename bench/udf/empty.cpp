extern "C" void dynamic_dataset() { lib.getData<float>("NDVI"); }
