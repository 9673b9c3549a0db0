"""When a bundle is split, by either manager's rule, and what becomes of a bundle chosen to split. Pure."""
