function dynamic_dataset()
  local out = lib.getData("NDVI")
end
