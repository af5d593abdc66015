// What runs and what it costs, kept fresh by the feed. Everything from the server is shown as text, never as HTML.
const state = document.getElementById("state");

async function get(path) {
  const response = await fetch(path, { headers: { accept: "application/json" } });
  if (response.status === 401) throw new Error("not logged in: open the link that `interlock login` prints");
  const body = await response.json();
  if (!response.ok) throw new Error(body.detail);
  return body;
}

function cell(tag, text, number) {
  const element = document.createElement(tag);
  element.textContent = text ?? "";
  if (number) element.className = "number";
  return element;
}

function table(id, columns, rows, empty) {
  const head = document.createElement("tr");
  for (const [title, , number] of columns) head.append(cell("th", title, number));
  const lines = rows.map((row) => {
    const line = document.createElement("tr");
    for (const [, value, number] of columns) line.append(cell("td", value(row), number));
    return line;
  });
  if (rows.length === 0) {
    const line = document.createElement("tr");
    const only = cell("td", empty);
    only.colSpan = columns.length;
    line.append(only);
    lines.push(line);
  }
  document.getElementById(id).replaceChildren(head, ...lines);
}

async function draw() {
  const [status, budgets, runs] = await Promise.all([
    get("v1/status"), get("v1/budgets"), get("v1/runs?limit=25"),
  ]);
  const tiles = [["running", status.live_runs], ["waiting", status.queued_runs], ["open holds", status.open_holds],
    ["agents", status.agents], ["sessions", status.sessions], ["events", status.head_seq]];
  document.getElementById("tiles").replaceChildren(...tiles.flatMap(([name, value]) =>
    [cell("dt", name), cell("dd", String(value))]).reduce((groups, element, i) => {
    if (i % 2 === 0) groups.push(document.createElement("div"));
    groups.at(-1).append(element);
    return groups;
  }, []));
  table("budget-table", [["name", (b) => b.name], ["window", (b) => b.window.kind], ["limit", (b) => b.limit, true],
    ["settled", (b) => b.settled, true], ["held", (b) => b.held, true], ["free", (b) => b.free, true]],
    budgets.items, "No budgets yet: interlock budgets put daily --limit 10.00 --window day");
  table("run-table", [["run", (r) => r.id], ["agent", (r) => r.agent], ["status", (r) => r.status],
    ["workspace", (r) => r.workspace], ["spent", (r) => r.spent, true]],
    runs.items, "No runs yet: interlock runs start --agent NAME");
}

let waiting = false;
async function redraw() {
  if (waiting) return;
  waiting = true;
  await new Promise((resolve) => setTimeout(resolve, 200));  // A burst of events is one drawing.
  waiting = false;
  try {
    await draw();
    state.textContent = "live";
    state.className = "live";
  } catch (error) {
    state.textContent = error.message;
    state.className = "";
  }
}

async function follow() {
  for (;;) {
    try {
      const response = await fetch("v1/events", { headers: { accept: "text/event-stream" } });
      if (!response.ok) throw new Error(response.status === 401 ? "not logged in: open the link that `interlock login` prints" : "no feed");
      await redraw();
      const reader = response.body.getReader();
      while (!(await reader.read()).done) redraw();
    } catch (error) {
      state.textContent = error.message;
      state.className = "";
    }
    await new Promise((resolve) => setTimeout(resolve, 2000));
    state.textContent = "reconnecting …";
  }
}
follow();
