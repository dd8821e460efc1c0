"""Draft: tasks that a model writes about rules, complaints and episodes, three a question, each checked by machine."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from skillopt_mcp.core.calls import Ask, Call, Question
from skillopt_mcp.core.errors import BadInput
from skillopt_mcp.core.mining import Draft, Episode
from skillopt_mcp.core.redacting import KnownSecrets
from skillopt_mcp.core.replies import DraftedTask, DraftReply, LabelReply
from skillopt_mcp.core.tasks import NewTask, Task
from skillopt_mcp.prompts.loading import load_shipped
from skillopt_mcp.prompts.rendering import ask_parsed, cut_middle, fence, render_evidence
from skillopt_mcp.tasks.drafts import Subject, find_doubts, find_faults, group_variants, make_draft
from skillopt_mcp.tasks.judges.kinds.opens import Opens

PER_QUESTION, _ROUNDS = 3, 3
_LABELS_PER_QUESTION = 8
_SHOWN = 4_000  # characters of each text of an episode
_FEW = 1_200  # where only a label is asked for


@dataclass(frozen=True, slots=True)
class DraftingTerms:
    """What drafts are held to: the skill's text, the tasks that are there, the judge programs, and what is secret."""

    text: str
    stored: Sequence[Task]
    programs: Collection[str]
    secrets: KnownSecrets


def count_questions(n_subjects: int, n_unknown: int = 0) -> int:
    """How many questions drafting asks at most: each draft once, labels, and half as many for what cannot be used."""
    n_first = -(-n_subjects // PER_QUESTION)
    return n_first + max(1, n_first // 2) + -(-n_unknown // _LABELS_PER_QUESTION)


def label_episodes(ask: Ask, episodes: Sequence[Episode]) -> list[Episode]:
    """The episodes with the labels that a model gives them; what it does not say is left as it is."""
    chunks = [episodes[at : at + _LABELS_PER_QUESTION] for at in range(0, len(episodes), _LABELS_PER_QUESTION)]
    calls = []
    for chunk in chunks:
        parts = []
        for n, each in enumerate(chunk, 1):
            texts = (("request", each.prompt), ("answer", each.rejected or each.answer), ("reaction", each.correction))
            parts += [f"## Episode {n}", *(fence(cut_middle(text, _FEW), name) for name, text in texts)]
        calls.append(_call(Question(load_shipped("label"), "\n\n".join(parts), "label")))
    labelled = list(episodes)
    for n, parsed in enumerate(ask_parsed(ask, calls, LabelReply)):
        for said in parsed.value.labels if parsed.value else ():
            if 1 <= said.number <= len(chunks[n]):
                at = n * _LABELS_PER_QUESTION + said.number - 1
                labelled[at] = replace(episodes[at], label=said.label, why="asked")
                if said.label == "accepted":
                    labelled[at] = replace(labelled[at], rejected="", correction="")
    return labelled


def origin_of(episode: Episode) -> str:
    """Where a task is from that was drafted about an episode."""
    return f"{episode.session}#{episode.index}"


def make_subjects(episodes: Sequence[Episode]) -> list[Subject]:
    """What is drafted about episodes: those with a correction first, then those whose answer was accepted."""
    taught = [each for each in episodes if each.label != "unknown" and each.correction]
    others = [each for each in episodes if each.label == "accepted" and each.answer and not each.correction]
    found = []
    for each in [*taught, *others]:
        accepted = each.answer if each.label == "accepted" else ""
        texts = (("request", each.prompt), ("accepted", accepted), ("rejected", each.rejected),
                 ("correction", each.correction))  # fmt: skip
        shown = "\n\n".join(fence(cut_middle(text, _SHOWN), name) for name, text in texts if text)
        known = (accepted, each.rejected, each.correction)
        found.append(Subject("sessions", origin_of(each), shown, "", *known))
    return found


def make_trigger_tasks(episodes: Sequence[Episode]) -> list[Draft]:
    """Tasks of what was asked where a skill should have been opened: whether it is."""
    tasks = [NewTask(each.prompt, Opens(expected=True), tags=("opens",)) for each in episodes]
    return [Draft(task, "sessions", origin_of(each)) for task, each in zip(tasks, episodes, strict=True)]


def draft_tasks(
    ask: Ask, terms: DraftingTerms, subjects: Sequence[Subject], tags: Collection[str]
) -> tuple[list[Draft], list[str]]:
    """The drafts that passed every check, in the order of their subjects, and why each other subject has none.

    What fails, or is in a reply that cannot be read, is asked again with the reason, `_ROUNDS` times in all and within
    `count_questions`. A doubt ends once the model has repeated what it is about.
    """
    drafted, faults, unfit = dict[int, DraftedTask](), dict[int, str](), dict[int, str]()
    drafts, sure = dict[int, Draft](), set[int]()
    waiting, left = list(range(len(subjects))), count_questions(len(subjects))
    for round_ in range(_ROUNDS):
        # A question is left for what fails twice.
        n_questions = max(1, left - (0 < round_ < _ROUNDS - 1))
        n_each = min(2 * PER_QUESTION, max(PER_QUESTION, -(-len(waiting) // n_questions)))
        waiting, before = waiting[: left * n_each], dict(faults)
        chunks = [waiting[at : at + n_each] for at in range(0, len(waiting), n_each)]
        left -= len(chunks)
        calls = [_ask_for(terms, [(subjects[n], drafted.get(n), faults.get(n, "")) for n in chunk], tags, round_)
                 for chunk in chunks]  # fmt: skip
        for chunk, parsed in zip(chunks, ask_parsed(ask, calls, DraftReply, n_reasks=0), strict=True):
            replies = {each.number: each for each in reversed(parsed.value.tasks)} if parsed.value else {}
            for number, n in enumerate(chunk, 1):
                drafts.pop(n, None)
                faults[n] = parsed.problem or "the reply has no task for it"
                if reply := replies.get(number):
                    drafted[n] = reply
                    if reply.unfit.strip():
                        unfit[n] = f"no task can show it: {reply.unfit.strip()}"
                    try:
                        drafts[n] = make_draft(reply, subjects[n], tags)
                    except BadInput as error:
                        faults[n] = str(error)
        drafts = {n: drafts[n] for n in sorted(drafts.keys() - unfit.keys())}
        known, doubts = {n: subject.accepted for n, subject in enumerate(subjects)}, find_doubts(drafts, subjects)
        sure |= {n for n in waiting if n in doubts and doubts[n] == before.get(n)}
        found = {n: why for n, why in doubts.items() if n not in sure}
        found |= find_faults(drafts, known, terms.programs, terms.secrets)
        grouped, near = group_variants({n: each for n, each in drafts.items() if n not in found}, terms.stored)
        faults |= found | near
        waiting = [n for n in range(len(subjects)) if n not in grouped and n not in unfit]
    faults |= unfit
    dropped = [f"{subject.origin}: {faults[n]}" for n, subject in enumerate(subjects) if n not in grouped]
    return list(grouped.values()), dropped


def _ask_for(
    terms: DraftingTerms, rows: Sequence[tuple[Subject, DraftedTask | None, str]], tags: Collection[str], round_: int
) -> Call:
    parts = [f"Tags: {', '.join(tags) or 'none'}. Judge programs: {', '.join(sorted(terms.programs)) or 'none'}."]
    for n, (subject, before, fault) in enumerate(rows, 1):
        what = subject.origin.partition(":")[0] if subject.source == "skill" else "session"
        text = fence(cut_middle(subject.text, _SHOWN), what) if subject.source == "skill" else subject.text
        parts.append(f"## Subject {n}: a {what}{f', situation {subject.nth}' if subject.nth > 1 else ''}\n\n{text}")
        if fault:
            said = f"\n\n{fence(before.model_dump_json(), 'draft')}" if before else ""
            parts.append(f"Your last draft on it cannot be used: {fault}. Draft another one.{said}")
    return _call(Question(load_shipped("draft"), render_evidence(terms.text, "\n\n".join(parts)), "draft"), round_)


def _call(question: Question, round_: int = 0) -> Call:
    # The question is its own draw: it is asked once a round, whatever else is drafted with it.
    return Call("optimizer", "draft", question, f"draft/{question.digest[:12]}{f'/again{round_}' * bool(round_)}")
