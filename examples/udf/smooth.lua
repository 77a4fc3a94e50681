-- A 3x3 mean, in blocks: hyperchunk udf attach image.h5 smooth.lua --chunks auto --halo 1
function dynamic_dataset()
    local image, smooth = lib.getData("image"), lib.getData("smooth")
    local size, wide = lib.getChunk(), lib.getDims("image")
    -- Offset of the computed block within the input's wider block.
    local here, there = lib.getOffset(), lib.getOffset("image")
    local top, left = here[1] - there[1], here[2] - there[2]
    for i = 1, size[1] do
        for j = 1, size[2] do
            local sum, count = 0, 0
            for r = math.max(i + top - 1, 1), math.min(i + top + 1, wide[1]) do
                for c = math.max(j + left - 1, 1), math.min(j + left + 1, wide[2]) do
                    sum, count = sum + image[(r - 1) * wide[2] + c], count + 1
                end
            end
            smooth[(i - 1) * size[2] + j] = sum / count
        end
    end
end
