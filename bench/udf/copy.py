def dynamic_dataset():
    lib.array("NDVI")[...] = lib.array("Red")
