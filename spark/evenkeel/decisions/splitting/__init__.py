"""Splitting: when a bundle is split, where it is cut, and what is checked before the split is carried out."""
