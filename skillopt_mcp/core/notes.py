"""Note: a caveat of a result, as a code with numbers; `show` and the pages put it into words."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class Note(BaseModel):
    """One caveat: a code such as `near_train_tasks`, its numbers by name, the ids that it is about, and a way out."""

    model_config = ConfigDict(frozen=True)
    code: str
    numbers: dict[str, float] = Field(default_factory=dict)
    ids: list[str] = Field(default_factory=list)
    advice: str = ""
