"""Writing of new files. The classes for reading also read a file that is still being written."""
