"""Reader: evidence is taken apart as it was rendered, in time linear in its length."""

from __future__ import annotations

import time

import pytest

from skillopt_mcp.backends.reader import attempts_in, texts_of


def test_what_is_fenced_below_a_heading_is_found_and_a_fence_without_an_end_is_none() -> None:
    body = (
        "\n### Trajectory 1 (failed, score 0)\n```task\nAdd (needs: dates)\n```\nx"
        "\n### Trajectory 2 (failed)\n``````task\nnever closed\n```"
        "\n### Trajectory 3 (passed)\n`````task\n````\n`````\n"
    )
    assert [failed for failed, _ in attempts_in(body)] == [True, False]
    texts = "### Text 1 (of 2)\n```text\n# A\n\nb\n```\n\n### Text 2 (of 2)\n````text\n```\nc\n```\n````"
    assert texts_of(texts) == {1: "# A\n\nb", 2: "```\nc\n```"}


@pytest.mark.parametrize("again", ["\n### Trajectory 1 (failed)\n````task\nx", "\n### Trajectory 1 (a"])
def test_headings_that_lead_to_nothing_are_read_in_a_moment(again: str) -> None:
    started = time.process_time()
    for body in (
        again * 20_000,
        again + "a" * 60_000,
        again.replace("Trajectory", "Text").replace("task", "text") * 20_000,
    ):
        assert attempts_in(body) == []
        assert texts_of(body) == {}
    assert time.process_time() - started < 2
