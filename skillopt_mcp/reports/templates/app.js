// A page in an agent's host (MCP Apps): when a tool has answered, it asks the host for the report on what that names.
const waiting = new Map();
let last = 0;
const post = (message) => window.parent.postMessage({ jsonrpc: "2.0", ...message }, "*");
const ask = (method, params) => new Promise((resolve) => { waiting.set(++last, resolve); post({ id: last, method, params }); });
const resize = () => post({ method: "ui/notifications/size-changed", params: { height: document.documentElement.scrollHeight } });
const show = async (id) => {
  const read = await ask("resources/read", { uri: "ui://skillopt/report/" + encodeURIComponent(id) });
  if (!read) return;
  const page = new DOMParser().parseFromString(read.contents[0].text, "text/html");
  document.querySelector("main").replaceWith(page.querySelector("main"));
};
window.addEventListener("message", ({ source, data }) => {
  if (source !== window.parent || !data) return;
  if (!data.method && waiting.has(data.id)) waiting.get(data.id)(data.result);
  if (data.method === "ui/notifications/tool-result") {
    const found = data.params.structuredContent || {};
    const id = found.candidate_id || found.id;
    if (typeof id === "string") show(id);
  }
  if (data.method === "ping" || data.method === "ui/resource-teardown") post({ id: data.id, result: {} });
});
ask("ui/initialize", { protocolVersion: "2026-01-26", appInfo: { name: "skillopt-mcp", version: "1" }, appCapabilities: {} }).then(() => {
  post({ method: "ui/notifications/initialized" });
  new ResizeObserver(resize).observe(document.body);
});
