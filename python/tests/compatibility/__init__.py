"""What programs written for HDF5-UDF do, each case in each language, written anew."""
