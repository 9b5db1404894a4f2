"""What an engine is started with. Read from the environment, and written back into a child's. No torch here."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

CHECKOUT = Path(__file__).parents[1]
DEFAULT_MODEL = "SmolLM2-135M-Instruct.Q4_1.gguf"
DEFAULT_FAKE_TEXT = "This answer comes from the fake engine: it computes nothing."
MIB = 1 << 20


class BadSetting(ValueError):
    """A variable of the environment has a value that cannot be used; the message names it and the limit."""


@dataclass(frozen=True)
class EngineSettings:
    """Memory in MiB. `threads` 0 leaves the number to the kernel plan."""

    data: Path
    model: Path
    safety_heads: Path
    kernel_in_name: bool = False
    """Whether the model bears its kernel's name, to tell it from the same file with another kernel."""
    engine: Literal["model", "fake"] = "model"
    device: str = "auto"
    kernel: str = "auto"
    threads: int = 0
    cache_memory: int = 512
    trace_memory: int = 768
    aside_memory: int = 256
    fake_text: str = DEFAULT_FAKE_TEXT
    fake_rate: float = 50.0  # tokens a second

    @classmethod
    def all_from_environment(cls, environment: Mapping[str, str] = os.environ) -> list[EngineSettings]:
        """One engine for each checkpoint of WEBTRACE_MODEL, a list with commas. Raises BadSetting."""
        listed = [part.strip() for part in environment.get("WEBTRACE_MODEL", "").split(",")]
        if len(listed) > 1 and not all(listed):
            raise BadSetting("WEBTRACE_MODEL has an empty place between its commas.")
        found = [cls.from_environment({**environment, "WEBTRACE_MODEL": part}) for part in listed]
        names = [one.model_name for one in found]
        for name in names:
            if names.count(name) > 1:
                raise BadSetting(f"WEBTRACE_MODEL names {name} twice; the same file may be named with two kernels.")
        return found

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> EngineSettings:
        """For one checkpoint: WEBTRACE_MODEL is its path, or `path@kernel`. Raises BadSetting."""

        def read(name: str, default: str) -> str:
            return environment.get(f"WEBTRACE_{name}", "").strip() or default

        def number(name: str, default: float, at_least: float) -> float:
            raw = read(name, str(default))
            try:
                value = float(raw)
            except ValueError:
                raise BadSetting(f"WEBTRACE_{name} is {raw!r}; it must be a number.") from None
            if not at_least <= value < float("inf"):
                raise BadSetting(f"WEBTRACE_{name} is {raw}; it must be at least {at_least:g}.")
            return value

        def whole(name: str, default: int, at_least: int) -> int:
            value = number(name, default, at_least)
            if not value.is_integer():
                raise BadSetting(f"WEBTRACE_{name} is {value:g}; it must be a whole number.")
            return int(value)

        engine = read("ENGINE", "model")
        if engine not in ("model", "fake"):
            raise BadSetting(f"WEBTRACE_ENGINE is {engine!r}; it must be model or fake.")
        data = Path(read("DATA", str(CHECKOUT / "data"))).expanduser().resolve()
        heads = CHECKOUT / "webtrace" / "safety" / "heads" / "safety.safetensors"
        model, kernel = _path_and_kernel(read("MODEL", str(data / "models" / DEFAULT_MODEL)))
        return cls(
            data=data,
            model=model,
            kernel_in_name=kernel is not None,
            safety_heads=Path(read("SAFETY_HEADS", str(heads))),
            engine="fake" if engine == "fake" else "model",
            device=read("DEVICE", "auto"),
            kernel=kernel or read("KERNEL", "auto"),
            threads=whole("THREADS", 0, 0),
            cache_memory=whole("CACHE_MEMORY", 512, 1),
            trace_memory=whole("TRACE_MEMORY", 768, 0),
            aside_memory=whole("ASIDE_MEMORY", 256, 0),
            fake_text=read("FAKE_TEXT", DEFAULT_FAKE_TEXT),
            fake_rate=number("FAKE_RATE", 50.0, 0.1),
        )

    def to_environment(self) -> dict[str, str]:
        """Variables from which `from_environment` makes the same settings."""
        values = {
            "DATA": self.data,
            "MODEL": f"{self.model}@{self.kernel}" if self.kernel_in_name else self.model,
            "SAFETY_HEADS": self.safety_heads,
            "ENGINE": self.engine,
            "DEVICE": self.device,
            "KERNEL": self.kernel,
            "THREADS": self.threads,
            "CACHE_MEMORY": self.cache_memory,
            "TRACE_MEMORY": self.trace_memory,
            "ASIDE_MEMORY": self.aside_memory,
            "FAKE_TEXT": self.fake_text,
            "FAKE_RATE": self.fake_rate,
        }
        return {f"WEBTRACE_{name}": str(value) for name, value in values.items()}

    @property
    def model_name(self) -> str:
        """What people ask for: the file's or folder's name, with the kernel where that was named too."""
        name = self.model.name if self.model.is_dir() else self.model.stem
        return f"{name}@{self.kernel}" if self.kernel_in_name else name

    @property
    def encoder(self) -> Path:
        return self.data / "models" / "all-MiniLM-L6-v2"

    @property
    def cache(self) -> Path:
        """Folder of what can be made again: tokenizers read from GGUF files, compiled products, the chosen kernels."""
        return self.data / "cache"


def _path_and_kernel(text: str) -> tuple[Path, str | None]:
    """`path` or `path@kernel`; a path that is there may have an @ of its own."""
    path, at, kernel = text.rpartition("@")
    if not at or Path(text).expanduser().exists():
        return Path(text).expanduser(), None
    return Path(path).expanduser(), kernel
