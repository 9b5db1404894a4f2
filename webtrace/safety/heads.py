"""Where the trained heads lie. They are small, and belong to the code."""

from pathlib import Path

HEADS = Path(__file__).parent / "heads" / "safety.safetensors"
