#!/bin/sh
# SkillOpt 0.2.0 (and skillrl 1.0.0, which follows it): insert_after whose target is not in the skill is appended at the end.
#
# replace and delete with an unknown target are skipped, insert_after is not: a model that misquotes the line it wants to
# follow adds its rule under the last heading, and the report calls that "applied".
#
# Seen:
#     skillopt insert_after: applied_insert_after_fallback_append; the rule now stands under "## Never"
#     skillopt replace: skipped_replace_target_not_found
#     skillrl: the same two
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile skillopt==0.2.0 skillrl==1.0.0
venv/bin/python - <<'PYTHON'
from skillopt.optimizer.skill import apply_patch_with_report as skillopt
from skillrl.core.editor import apply_patch_with_report as skillrl

SKILL = "# Dates\n\n## Always\n- Use ISO dates.\n\n## Never\n- Guess a year.\n"
EDITS = [{"op": "insert_after", "target": "- Use ISO dates", "content": "- Give the time zone."},
         {"op": "insert_after", "target": "- Always use ISO dates.", "content": "- Name the calendar."},
         {"op": "replace", "target": "- Always use ISO dates.", "content": "- Use dates."}]
for name, apply in (("skillopt", skillopt), ("skillrl", skillrl)):
    text, reports = apply(SKILL, {"edits": EDITS})
    states = [report["status"] for report in reports]
    print(name, *states[1:])
    assert states == ["applied_insert_after", "applied_insert_after_fallback_append", "skipped_replace_target_not_found"]
    assert "Name the calendar" in text.partition("## Never")[2]
PYTHON
