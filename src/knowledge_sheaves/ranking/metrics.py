"""Numbers that sum up ranks."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.ranking.ranker import SideRanks


@dataclass(frozen=True)
class RankMetrics:
    """Metrics of realistic ranks: all but the mean rank are better the larger they are.

    ``amri``, the adjusted mean rank index, is 1 where every rank is 1, and 0 where ranks are no
    better than chance among the candidates, those of a type that the schema allows; unlike the
    mean rank it can be compared between data sets.
    """

    count: int
    mrr: float
    mean_rank: float
    hits_at_1: float
    hits_at_3: float
    hits_at_10: float
    amri: float

    @classmethod
    def of(cls, ranks: SideRanks) -> RankMetrics:
        """Sum up ranks.

        >>> import numpy as np
        >>> RankMetrics.of(SideRanks(np.array([1, 2]), np.array([1, 2]), np.array([9, 9]))).mrr
        0.75
        """
        if not len(ranks):
            raise InputError("There are no ranks to sum up: give at least one triple.")
        values = ranks.realistic
        mean = float(values.mean())
        return cls(
            count=len(values),
            mrr=float((1 / values).mean()),
            mean_rank=mean,
            hits_at_1=float((values <= 1).mean()),
            hits_at_3=float((values <= 3).mean()),
            hits_at_10=float((values <= 10).mean()),
            amri=_amri(mean, ranks),
        )

    def to_dict(self) -> dict[str, int | float]:
        """Return the metrics by name.

        >>> sorted(RankMetrics(1, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0).to_dict())[:3]
        ['amri', 'count', 'hits_at_1']
        """
        return asdict(self)


def _amri(mean: float, ranks: SideRanks) -> float:
    by_chance = float((ranks.candidates + 1).mean()) / 2
    # Where there is nothing to choose from, ranking is no better than chance.
    return 0.0 if by_chance == 1 else 1 - (mean - 1) / (by_chance - 1)
