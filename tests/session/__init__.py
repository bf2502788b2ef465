"""A package, so that its test files may bear the names of other rooms' test files."""
