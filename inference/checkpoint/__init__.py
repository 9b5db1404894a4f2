"""Where weights come from: a GGUF file or a Hugging Face folder, read into one layout."""

import hashlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from inference.checkpoint.config import LayerKind, ModelConfig
from inference.checkpoint.gguf_file import GGUFFile
from inference.checkpoint.huggingface_folder import HuggingFaceFolder, weight_files
from inference.checkpoint.rotary import Rotary
from inference.checkpoint.unsupported import UnsupportedCheckpoint
from inference.checkpoint.weights import Float32, FourBit, WeightSource, check_shapes

__all__ = ["Checkpoint", "FourBit", "LayerKind", "ModelConfig", "Rotary", "UnsupportedCheckpoint", "load_checkpoint"]


@dataclass(frozen=True)
class Checkpoint:
    """An opened checkpoint. Weights are read from disk when asked for, never kept here."""

    path: Path
    name: str
    config: ModelConfig
    source: WeightSource

    @cached_property
    def sha256(self) -> str:
        """Hash of what the numbers follow from: the file itself, or config.json and all weights of a folder."""
        digest = hashlib.sha256()
        files = [self.path / "config.json", *weight_files(self.path)] if self.path.is_dir() else [self.path]
        for file in files:
            with file.open("rb") as opened:
                while piece := opened.read(1 << 20):
                    digest.update(piece)
        return digest.hexdigest()

    def tensor(self, name: str) -> Float32:
        """The tensor of that canonical name (see `weights.py`) in float32."""
        return self.source.tensor(name)

    def four_bit(self, name: str) -> FourBit | None:
        """The matrix of that canonical name as packed in the file, or None if it is not in four bits."""
        return self.source.four_bit(name)


def load_checkpoint(path: Path) -> Checkpoint:
    """Opens a GGUF file or a Hugging Face folder.

    Raises FileNotFoundError if there is nothing at the path, and UnsupportedCheckpoint, naming the feature,
    if the decoder could not run it faithfully.
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"no checkpoint at {path}")
    source: GGUFFile | HuggingFaceFolder
    if path.is_dir():
        if not (path / "config.json").exists():
            raise UnsupportedCheckpoint(f"{path.name}: a folder without config.json")
        source = HuggingFaceFolder(path)
    else:
        source = GGUFFile(path)
    check_shapes(source.config, source.shapes)
    return Checkpoint(path=path, name=source.name, config=source.config, source=source)
