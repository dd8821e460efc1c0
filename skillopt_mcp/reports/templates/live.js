const source = new EventSource("/events?path=" + encodeURIComponent(location.pathname));
source.onmessage = (event) => {
  const { id, html } = JSON.parse(event.data);
  const part = document.getElementById(id);
  const named = (each) => each.firstElementChild.textContent;
  const open = new Set([...part.querySelectorAll("details[open]")].map(named));
  const stops = () => [...part.querySelectorAll("summary, a, [tabindex]")];
  const at = stops().indexOf(document.activeElement);
  part.innerHTML = html;
  part.querySelectorAll("details").forEach((each) => { each.open = open.has(named(each)); });
  if (at >= 0 && stops()[at]) stops()[at].focus();
};
