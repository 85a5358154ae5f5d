"""Attacks: each test shows what is wrong, until it is mended."""
