//! Bytes → values, one file a structure, named as in the specification.
