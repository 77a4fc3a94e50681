"""Cases of HDF5-UDF programs, each in each language, newly written."""
