// Brings the commands of an open cycle up to the record while the page is seen: asked by ETag, stopped once all is over.
"use strict";

(() => {
  const box = document.getElementById("progress");
  const said = document.getElementById("progress-said");
  const note = document.getElementById("progress-script");
  const outcomes = document.getElementById("outcomes-0");
  if (!box || !outcomes || box.dataset.over === "yes") return;
  const EVERY_MS = 7_000;
  const LONGEST_MS = 60_000;
  let tag = "";
  let wait = EVERY_MS;

  const tell = (text) => {
    note.textContent = text;
    note.hidden = text === "";
  };

  // A text that is put in anew is read out anew: so only one that is another.
  const replace = (place, next) => {
    if (place.textContent === next.textContent) return;
    const open = [...place.querySelectorAll("details")].map((one) => one.open);
    const held = place.contains(document.activeElement);
    const far = place.querySelector(".scroll")?.scrollLeft ?? 0;
    place.replaceChildren(...document.adoptNode(next).childNodes);
    [...place.querySelectorAll("details")].forEach((one, n) => { one.open = Boolean(open[n]); });
    const frame = place.querySelector(".scroll");
    if (frame) frame.scrollLeft = far;
    if (held) frame?.focus({ preventScroll: true });
  };

  const end = () => {
    tell("");
    const again = document.createElement("a");
    again.href = location.href;
    again.textContent = "Load this page again";
    note.append("Nothing more is to come. ", again, " for the whole report as it is now.");
    note.hidden = false;
  };

  // Whether there is nothing more to ask for.
  const take = async (answer) => {
    wait = EVERY_MS;
    if (answer.status === 304) return false;
    tag = answer.headers.get("ETag") ?? "";
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const [progress, lines, table] = ["progress", "progress-said", "outcomes-0"].map((id) => page.getElementById(id));
    if (!progress || !lines || !table) return false;
    const approval = document.getElementById("approval");
    if (approval && progress.dataset.superseded) {
      const words = document.createElement("p");
      words.setAttribute("role", "status");
      words.textContent = `This plan is superseded: the cycle of ${progress.dataset.superseded} is on record. No answer is taken any more.`;
      approval.replaceChildren(words);
    }
    replace(said, lines);
    replace(outcomes, table);
    if (progress.dataset.over !== "yes") return false;
    end();
    return true;
  };

  const look = async () => {
    try {
      const headers = tag === "" ? {} : { "If-None-Match": tag };
      const answer = await fetch(box.dataset.address, { headers, credentials: "same-origin", redirect: "error" });
      if (answer.status === 200 || answer.status === 304) return await take(answer);
      if (answer.status === 401 || answer.status === 403) {
        tell("Airflow does not let you see this any more: log in again, and load this page.");
        return true;
      }
      wait = Math.min(LONGEST_MS, Math.max(2 * wait, 1_000 * (Number(answer.headers.get("Retry-After")) || 0)));
    } catch {
      wait = Math.min(LONGEST_MS, 2 * wait);
    }
    return false;
  };

  let due = 0;
  const turn = async () => {
    if (document.hidden) {
      document.addEventListener("visibilitychange", turn, { once: true });
      return;
    }
    if (!(await look())) due = setTimeout(turn, wait);
  };
  tell("Outcomes come in by themselves while you see this page.");
  due = setTimeout(turn, EVERY_MS);
  addEventListener("pagehide", () => clearTimeout(due));
  addEventListener("pageshow", (event) => { if (event.persisted) due = setTimeout(turn, EVERY_MS); });
})();
