"""How good predicted labels are: confusion matrix, precision, recall, F1."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Evaluation:
    """`confusion[i, j]` counts texts of label i that were given label j."""

    labels: tuple[str, ...]
    confusion: NDArray[np.int64]

    @classmethod
    def of(cls, labels: Sequence[str], truth: NDArray[np.int64], predicted: NDArray[np.int64]) -> Evaluation:
        """`truth` and `predicted` [texts] are indexes into `labels`."""
        confusion = np.zeros((len(labels), len(labels)), dtype=np.int64)
        np.add.at(confusion, (truth, predicted), 1)
        return cls(tuple(labels), confusion)

    @property
    def precision(self) -> NDArray[np.float64]:
        return _ratio(self.confusion.diagonal(), self.confusion.sum(axis=0))

    @property
    def recall(self) -> NDArray[np.float64]:
        return _ratio(self.confusion.diagonal(), self.confusion.sum(axis=1))

    @property
    def f1(self) -> NDArray[np.float64]:
        """Per label, the harmonic mean of precision and recall."""
        return _ratio(2 * self.confusion.diagonal(), self.confusion.sum(axis=0) + self.confusion.sum(axis=1))

    @property
    def macro_f1(self) -> float:
        """The labels' F1 averaged, each label counting the same."""
        return float(self.f1.mean())

    def table(self) -> str:
        """Everything above as text, a row for each true label."""
        heads = " ".join(f"{label[:12]:>12}" for label in self.labels)
        lines = [f"{'':22}{heads}  precision  recall     F1"]
        for index, label in enumerate(self.labels):
            counts = " ".join(f"{count:12d}" for count in self.confusion[index])
            lines.append(
                f"{label:22}{counts}  {self.precision[index]:9.3f}  {self.recall[index]:6.3f}  {self.f1[index]:5.3f}"
            )
        lines.append(f"macro-F1 {self.macro_f1:.3f} over {self.confusion.sum()} texts")
        return "\n".join(lines)


def _ratio(part: NDArray[np.int64], whole: NDArray[np.int64]) -> NDArray[np.float64]:
    return part / np.maximum(whole, 1)
