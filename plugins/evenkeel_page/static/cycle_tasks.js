// The tasks of a cycle's runs, asked of Airflow's own API with the login of who sees the page: Airflow decides who may.
"use strict";

(() => {
  const sections = [...document.querySelectorAll("#tasks [data-tasks]")];
  const summary = document.getElementById("tasks-said");
  const EVERY_MS = 10_000;
  const LONGEST_MS = 60_000;
  const MOODS = { success: "good", failed: "bad", upstream_failed: "bad", skipped: "", removed: "" };
  const REFUSED = {
    401: "Your session has ended: log in to Airflow again, and load this page.",
    403: "You may see this cycle, and not Airflow's tasks of this run.",
    404: "Airflow has no such run (yet, or any more).",
  };
  const words = new Map();

  const text = (kind, content, className = "") => {
    const made = document.createElement(kind);
    made.textContent = content;
    if (className) made.className = className;
    return made;
  };

  const duration = (seconds) => {
    if (seconds === null || seconds === undefined) return "–";
    if (seconds < 100) return `${seconds.toFixed(1)} s`;
    return `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
  };

  const spent = (task) => {
    if (!task.start_date) return null;
    if (task.end_date) return task.duration ?? (Date.parse(task.end_date) - Date.parse(task.start_date)) / 1_000;
    return Math.max(0, (Date.now() - Date.parse(task.start_date)) / 1_000);
  };

  const logs = (page, task) => {
    const mapped = task.map_index >= 0 ? `/mapped/${task.map_index}` : "";
    return `${page}/tasks/${encodeURIComponent(task.task_id)}${mapped}?try_number=${Math.max(1, task.try_number)}`;
  };

  const row = (page, task) => {
    const made = document.createElement("tr");
    const cell = document.createElement("td");
    const link = text("a", task.map_index >= 0 ? `${task.task_id} [${task.map_index}]` : task.task_id);
    link.href = logs(page, task);
    link.setAttribute("aria-label", `Log of ${link.textContent}`);
    cell.append(link);
    const state = document.createElement("td");
    state.append(text("span", (task.state ?? "not begun").replaceAll("_", " "), `pill ${MOODS[task.state] ?? "act"}`.trim()));
    const begun = task.start_date ? `${task.start_date.slice(0, 19).replace("T", " ")} UTC` : "–";
    made.append(cell, state, text("td", begun), text("td", duration(spent(task)), "num"), text("td", task.try_number, "num"));
    return made;
  };

  const sum = (tasks) => {
    const count = (...states) => tasks.filter((task) => states.includes(task.state)).length;
    const bad = count("failed", "upstream_failed");
    const ended = count("success", "skipped", "removed") + bad;
    const begun = tasks.map((task) => task.start_date).filter(Boolean).sort()[0];
    const last = tasks.map((task) => task.end_date).filter(Boolean).sort().at(-1);
    const took = begun && last && ended === tasks.length ? ` in ${duration((Date.parse(last) - Date.parse(begun)) / 1_000)}` : "";
    return { isOver: ended === tasks.length, said: `${ended} of ${tasks.length} ended${took}${bad ? `, ${bad} failed` : ""}` };
  };

  const say = (section, told) => {
    words.set(section, told);
    const all = sections.map((one) => words.get(one)).filter(Boolean);
    summary.textContent = all.length ? `: ${all.join("; then ")}` : "";
  };

  const show = (section, tasks) => {
    const begun = (task) => task.start_date ?? "9";
    tasks.sort((a, b) => begun(a).localeCompare(begun(b)) || a.map_index - b.map_index);
    const frame = section.querySelector(".scroll");
    const held = frame.contains(document.activeElement) ? document.activeElement.textContent : null;
    frame.querySelector("tbody").replaceChildren(...tasks.map((task) => row(section.dataset.page, task)));
    if (held) [...frame.querySelectorAll("a")].find((link) => link.textContent === held)?.focus({ preventScroll: true });
    frame.hidden = tasks.length === 0;
    const { isOver, said } = sum(tasks);
    section.querySelector(".run-said").hidden = tasks.length > 0;
    say(section, tasks.length ? said : "");
    return tasks.length > 0 && isOver;
  };

  // Whether there is nothing more to ask for.
  const look = async (section) => {
    const answer = await fetch(section.dataset.tasks, { credentials: "same-origin", headers: { Accept: "application/json" } });
    if (answer.ok) return show(section, (await answer.json()).task_instances ?? []);
    const place = section.querySelector(".run-said");
    place.hidden = false;
    place.textContent = REFUSED[answer.status] ?? `Airflow answered ${answer.status}.`;
    return answer.status === 401 || answer.status === 403;
  };

  for (const section of sections) {
    let wait = EVERY_MS;
    const turn = async () => {
      if (document.hidden) return void document.addEventListener("visibilitychange", turn, { once: true });
      try {
        if (await look(section)) return;
        wait = words.get(section) ? EVERY_MS : Math.min(LONGEST_MS, 2 * wait);
      } catch {
        wait = Math.min(LONGEST_MS, 2 * wait);
      }
      setTimeout(turn, wait);
    };
    turn();
  }
})();
