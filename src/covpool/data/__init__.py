"""Data sets in their owners' layouts, transforms, and batches that do not depend on who loaded them."""
