//! The one table of datatype conversions: any to any that HDF5 allows.
