"""Writing new files: what is read back of them while they are written is read by the classes for reading."""
