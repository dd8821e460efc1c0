"""The page in a host that renders MCP Apps: a frame without a network, and the host's messages alone."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anyio
from mcp import Client

from benchmarks.report import visited
from skillopt_mcp.actions.candidates import propose_edits
from skillopt_mcp.server.app import SkillOptServer
from skillopt_mcp.server.resources import APP, PAGE
from skillopt_mcp.server.services import services_over
from skillopt_mcp.workspace.workspace import Workspace

# What the Apps extension asks of a host, as little of it as there is.
HOST = """([frame, answer]) => new Promise((resolve) => {
  const seen = [];
  window.addEventListener("message", ({ data, source }) => {
    const reply = (message) => source.postMessage({ jsonrpc: "2.0", ...message }, "*");
    seen.push(data.method);
    if (data.method === "ui/initialize") reply({ id: data.id, result: { hostContext: {} } });
    if (data.method === "ui/notifications/initialized")
      reply({ method: "ui/notifications/tool-result", params: { structuredContent: { candidate_id: answer.id } } });
    if (data.method === "resources/read") {
      seen.push(data.params.uri);
      reply({ id: data.id, result: { contents: [{ text: answer.text }] } });
    }
    if (data.method === "ui/notifications/size-changed" && seen.includes("resources/read")) resolve(seen);
  });
  const made = document.createElement("iframe");
  made.sandbox = "allow-scripts";
  made.srcdoc = frame;
  document.body.append(made);
})"""


def test_a_host_is_shown_the_report_on_what_a_tool_answered(chromium: Any, tmp_path: Path) -> None:
    skill = tmp_path / "skills" / "bad"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: bad\ndescription: bad\n---\n# Bad\n")
    with Workspace(tmp_path / "store.db", project=tmp_path) as workspace:
        edits = [{"op": "append", "content": "<script>parent.isTaken = true</script> A lesson."}]
        candidate = str(propose_edits(workspace.store, workspace.place, str(skill), edits).candidate_id)
        services = services_over(workspace)

        async def read() -> list[str]:
            async with Client(SkillOptServer(lambda: services)) as client:
                found = [await client.read_resource(uri) for uri in (APP, PAGE.format(id=candidate))]
                return [each.contents[0].text for each in found]

        with ThreadPoolExecutor(1) as thread:  # the browser has this one's loop
            frame, text = thread.submit(anyio.run, read).result()
    with visited(chromium, "about:blank") as (page, visit):
        seen = page.evaluate(HOST, [frame, {"id": candidate, "text": text}])
        shown = page.frames[1]
        shown.locator("section", has_text="A lesson.").first.wait_for()
        assert shown.locator(".label").inner_text() == "NOT TESTED"
        assert seen[:2] == ["ui/initialize", "ui/notifications/initialized"]
        assert PAGE.format(id=candidate) in seen
        assert page.evaluate("window.isTaken === undefined")
    assert visit.errors == []
    assert [each for each in visit.requests if not each.startswith(("about:", "data:"))] == []
