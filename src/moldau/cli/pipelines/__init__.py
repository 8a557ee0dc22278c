"""The parts of `moldau pipeline` that are ideas of their own."""
