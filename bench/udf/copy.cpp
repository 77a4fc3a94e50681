extern "C" void dynamic_dataset() {
    auto n = lib.getDims("NDVI");
    float *to = lib.getData<float>("NDVI");
    const float *from = lib.getData<float>("Red");
    for (size_t i = 0; i < n[0] * n[1]; i++) to[i] = from[i];
}
