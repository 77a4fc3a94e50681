def dynamic_dataset():
    lib.getData("NDVI")
