// A 3x3 mean, in blocks: hyperchunk udf attach image.h5 smooth.cpp --chunks auto --halo 1
#include <algorithm>

extern "C" void dynamic_dataset()
{
    auto image = lib.getData<float>("image"), smooth = lib.getData<float>("smooth");
    auto size = lib.getChunk(), wide = lib.getDims("image");
    // Offset of the computed block within the input's wider block.
    auto here = lib.getOffset(), there = lib.getOffset("image");
    size_t top = here[0] - there[0], left = here[1] - there[1];
    for (size_t i = 0; i < size[0]; i++)
        for (size_t j = 0; j < size[1]; j++) {
            size_t r = i + top, c = j + left, count = 0;
            double sum = 0;
            for (size_t y = r - std::min<size_t>(r, 1); y <= std::min(r + 1, wide[0] - 1); y++)
                for (size_t x = c - std::min<size_t>(c, 1); x <= std::min(c + 1, wide[1] - 1); x++, count++)
                    sum += image[y * wide[1] + x];
            smooth[i * size[1] + j] = sum / count;
        }
}
