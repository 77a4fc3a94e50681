"""High-level classes, under the names of h5py's modules."""
