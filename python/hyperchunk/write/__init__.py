"""Writing and editing of files. The classes derive from those for reading."""
