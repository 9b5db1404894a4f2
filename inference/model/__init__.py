"""The decoder, one part of a transformer per file."""
