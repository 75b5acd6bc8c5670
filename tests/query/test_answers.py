"""The best of many: what is looked at in blocks is what sorting everything finds."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from knowledge_sheaves.embedding.search.top import BLOCK, top
from knowledge_sheaves.query.batches import alike, canonical
from knowledge_sheaves.query.pattern import Edge, Pattern, Query


@given(
    width=st.integers(1, 40 * BLOCK),
    count=st.integers(1, 12),
    levels=st.sampled_from([3, 1000]),
    odd=st.lists(st.sampled_from([torch.inf, -torch.inf, torch.nan]), max_size=30),
    seed=st.integers(0, 1000),
)
def test_top_finds_what_sorting_finds(
    width: int, count: int, levels: int, odd: list[float], seed: int
) -> None:
    """With ties, infinities and NaN, in rows that do or do not fill their last block."""
    generator = torch.Generator().manual_seed(seed)
    values = torch.randint(levels, (3, width), generator=generator).float()
    places = torch.randint(3 * width, (len(odd),), generator=generator)
    values.view(-1)[places] = torch.tensor(odd)
    best, where = top(values, count)
    expected = values.sort(-1).values[:, :count]
    torch.testing.assert_close(best, expected, equal_nan=True, rtol=0, atol=0)
    torch.testing.assert_close(values.gather(1, where), best, equal_nan=True, rtol=0, atol=0)
    assert all(len(set(row)) == len(row) for row in where.tolist())


@pytest.mark.parametrize("finite", [0, 3])
def test_top_of_long_rows_with_few_finite_values(finite: int) -> None:
    values = torch.full((2, 100 * BLOCK + 1), torch.inf)
    values[:, -1 - finite : -1] = torch.arange(finite).float()
    best, where = top(values, 10)
    assert best.isfinite().sum(1).tolist() == [finite, finite]
    assert where[0, :finite].tolist() == list(range(100 * BLOCK - finite, 100 * BLOCK))


def test_queries_are_renamed_only_where_their_names_differ() -> None:
    def path(middle: str, end: str) -> Query:
        return Query((end,), (Pattern((Edge(0, 0, middle), Edge(middle, 1, end))),))

    same = [path("?y", "?x"), path("?y", "?x")]
    assert all(a is b for a, b in zip(alike(same), same, strict=True))
    mixed = [path("?y", "?x"), path("?x", "?y")]
    assert alike(mixed) == [canonical(query) for query in mixed]
    inner = Pattern((Edge(0, 2, "?x"), Edge("?x", 2, "?z")))
    other = Pattern((Edge(0, 2, "?x"), Edge("?x", 2, "?w")))
    negated = [Query(("?x",), (Pattern((Edge(0, 0, "?x"),), (p,)),)) for p in (inner, other)]
    assert alike(negated) == [canonical(query) for query in negated]
