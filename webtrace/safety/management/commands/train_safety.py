"""Train the safety heads from the examples and write them where the engine looks for them."""

from __future__ import annotations

import argparse
import hashlib
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from inference.settings import EngineSettings
from webtrace.safety.dataset import BadExamples, check_distance, load_examples, split


class Command(BaseCommand):
    help = "Train the safety heads from webtrace/safety/examples; prints how well they do on texts held out."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        default = EngineSettings.from_environment().safety_heads
        parser.add_argument("--output", type=Path, default=default, help="where to write the heads")

    def handle(self, *args: Any, output: Path, **options: Any) -> None:
        # Here, not above: torch, which no other part of the web process imports.
        from inference.encoder import Encoder, sentence_vectors
        from webtrace.safety.offline import embed_texts
        from webtrace.safety.training import train

        folder = EngineSettings.from_environment().encoder
        try:
            examples = load_examples()
            encoder = Encoder.load(folder)
            layer_means = embed_texts(encoder, [example.text for example in examples])
            parts = split(examples)
            check_distance(examples, parts, sentence_vectors(layer_means))
        except (BadExamples, OSError) as error:
            raise CommandError(str(error)) from error
        sha256 = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
        training = train(examples, parts, layer_means, sha256)
        output.parent.mkdir(parents=True, exist_ok=True)
        training.classifier.save(output)
        card = training.classifier.card
        self.stdout.write(
            f"{len(parts.training)} training texts, each judged by heads that had not seen it:\n"
            f"{training.cross_validated.table()}\n\n"
            f"{len(parts.held_out)} held-out texts:\n{training.held_out.table()}\n\n"
            + "\n".join(
                f"{label:22} caution from {limits.caution:.4f}, act from {limits.act:.4f}"
                for label, limits in {**card.thresholds, "both together": card.total}.items()
            )
            + f"\n\nVersion {card.version} written to {output}"
        )
