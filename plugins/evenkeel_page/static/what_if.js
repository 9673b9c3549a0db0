// What if: starts a checked run by Airflow's own API, with the login of who sees the page, and follows a run to its end.
"use strict";

(() => {
  const LOOKS_FIRST_MS = 2_000;
  const LOOKS_LATEST_MS = 30_000;
  const headers = { Accept: "application/json" };

  const beginning = () => {
    const box = document.getElementById("ready");
    if (!box) return;
    const button = document.getElementById("start");
    const state = document.getElementById("start-state");
    const { address, body, run } = box.dataset;
    const follow = () => location.assign(`started?run_id=${encodeURIComponent(run)}`);
    document.getElementById("start-line").hidden = false;

    const said = {
      401: "Your session has ended: log in to Airflow again, and load this page.",
      403: "You may not trigger the DAG replay: ask whoever manages Airflow's users for it.",
      404: "Airflow has no DAG replay: is its file in the folder of DAGs?",
    };
    button.addEventListener("click", async () => {
      button.disabled = true;
      state.textContent = "Starting it.";
      try {
        const answer = await fetch(address, {
          method: "POST",
          credentials: "same-origin",
          headers: { ...headers, "Content-Type": "application/json" },
          body,
        });
        if (answer.ok || answer.status === 409) return void follow(); // 409: another click or tab has started it
        state.textContent = said[answer.status] ?? `Airflow did not take it (${answer.status}): ${await airflowSaid(answer)}`;
      } catch {
        state.textContent = "Airflow could not be reached. Try again: the same run is started once at most.";
      }
      button.disabled = false;
    });
  };

  const following = () => {
    const box = document.getElementById("run");
    if (!box || !box.dataset.address) return;
    const pill = document.getElementById("run-state");
    const words = document.getElementById("run-said");
    const note = document.getElementById("run-note");
    note.textContent = "This page follows the run while you see it, and leads to the comparison at its end.";
    let pause = LOOKS_FIRST_MS;

    const look = async () => {
      if (!document.hidden) {
        try {
          const answer = await fetch(box.dataset.address, { credentials: "same-origin", headers });
          if (answer.ok) {
            const { state } = await answer.json();
            if (state === "success" || state === "failed") return void location.reload();
            if (state !== pill.dataset.state) return void location.reload();
          } else if (answer.status === 401 || answer.status === 403) {
            words.textContent = "Airflow does not show you this run any more: log in again, and load this page.";
            return;
          }
        } catch {
          // Airflow may be back at the next look.
        }
        pause = Math.min(pause * 1.3, LOOKS_LATEST_MS);
      }
      setTimeout(look, pause);
    };
    document.addEventListener("visibilitychange", () => { if (!document.hidden) pause = LOOKS_FIRST_MS; });
    setTimeout(look, pause);
  };

  beginning();
  following();
})();
