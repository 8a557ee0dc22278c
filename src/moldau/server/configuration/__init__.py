"""Configs: what each one is, where its value comes from, and whether it may change at run time."""
