function dynamic_dataset()
    local ndvi, red, nir = lib.getData("NDVI"), lib.getData("Red"), lib.getData("NIR")
    local dims = lib.getDims("NDVI")
    for i = 1, dims[1] * dims[2] do
        ndvi[i] = (nir[i] - red[i]) / (nir[i] + red[i])
    end
end
