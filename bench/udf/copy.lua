function dynamic_dataset()
  local n, to, from = lib.getDims("NDVI"), lib.getData("NDVI"), lib.getData("Red")
  for i = 1, n[1] * n[2] do to[i] = from[i] end
end
