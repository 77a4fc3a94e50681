function dynamic_dataset()
  local ndvi = lib.getData("NDVI")
  local red, nir = lib.getData("Red"), lib.getData("NIR")
  local dims = lib.getDims("NDVI")
  for i = 1, dims[1] * dims[2] do
    ndvi[i] = (nir[i] - red[i]) / (nir[i] + red[i])
  end
end
