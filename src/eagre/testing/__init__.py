"""The test kit that ships with Eagre: a pipeline test in a dozen lines."""
