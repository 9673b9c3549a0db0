// The answer to a plan that waits: Airflow's own human-in-the-loop API, asked with the login of who sees the page.
"use strict";

(() => {
  const box = document.getElementById("approval");
  if (!box) return;
  const state = document.getElementById("approval-state");
  const form = document.getElementById("approval-form");
  const reason = document.getElementById("approval-reason");
  const buttons = [...form.querySelectorAll("button")];
  const { question: address, user } = box.dataset;
  const LOOKS_EVERY_MS = 10_000;
  // Airflow may lose an answer that comes right after the question, and ask again: so often an answer is looked at.
  const LOOKS_AT_ANSWER = 6;
  let armed = null;
  let looksLeft = LOOKS_AT_ANSWER;

  const say = (text, isOpen = false) => {
    state.textContent = text;
    form.hidden = !isOpen;
  };

  const disarm = () => {
    armed = null;
    for (const button of buttons) button.textContent = button.dataset.option;
  };

  // Whether there is nothing more to wait for.
  const show = (found) => {
    if (found.response_received) {
      const who = found.responded_by_user?.name ?? found.responded_by_user?.id ?? "nobody";
      const why = found.params_input?.reason ? `: ${found.params_input.reason}` : ".";
      const at = found.responded_at ? ` at ${found.responded_at.slice(0, 19).replace("T", " ")} UTC` : "";
      say(`Answered: ${(found.chosen_options ?? []).join(", ")}, by ${who}${at}${why}`);
      looksLeft -= 1;
      return looksLeft <= 0;
    }
    // What the question offers: without splits only where the plan has some.
    for (const button of buttons) button.hidden = !(found.options ?? []).includes(button.dataset.option);
    const again = looksLeft < LOOKS_AT_ANSWER ? "Airflow lost the answer, and asks again. " : "";
    const named = found.assigned_users ?? [];
    const mayAnswer = user !== "" && (!named.length || named.some(({ id }) => id === user));
    if (mayAnswer) { if (form.hidden) say(`${again}The question is open. Your answer is put on record under your login.`, true); }
    else if (user !== "") say(`The question is open. It is for ${named.map(({ name }) => name).join(", ")} to answer.`);
    else say("The question is open. You may see it, and not answer: that needs a right on required actions of rebalance_approval.");
    looksLeft = LOOKS_AT_ANSWER;
    return false;
  };

  const look = async () => {
    try {
      const answer = await fetch(address, { credentials: "same-origin", headers: { Accept: "application/json" } });
      if (answer.ok) return show(await answer.json());
      if (answer.status === 404) say("Airflow has no open question about this plan (yet). It is asked by rebalance_approval.");
      else if (answer.status === 401) say("Your session has ended: log in to Airflow again, and load this page.");
      else if (answer.status === 403) say("You may see this plan, and not answer: that needs a right on required actions of rebalance_approval.");
      else say(`Airflow answered ${answer.status}: ${await airflowSaid(answer)}`);
      return answer.status === 403;
    } catch {
      say("Airflow cannot be reached; this page tries again.");
      return false;
    }
  };

  const put = async (option) => {
    for (const button of buttons) button.disabled = true;
    state.textContent = "Sending the answer.";
    try {
      const input = reason.value.trim() === "" ? {} : { reason: reason.value.trim() };
      const answer = await fetch(address, {
        method: "PATCH",
        credentials: "same-origin",
        headers: { Accept: "application/json", "Content-Type": "application/json" },
        body: JSON.stringify({ chosen_options: [option], params_input: input }),
      });
      if (answer.ok) {
        // Airflow's answer to an answer names who gave it elsewhere than its question does, and leaves the rest away.
        const taken = await answer.json();
        show({ ...taken, response_received: true, responded_by_user: taken.responded_by });
      } else if (answer.status === 409) {
        await look();
        state.textContent = `It was answered elsewhere before you. ${state.textContent}`;
      } else {
        say(`The answer was not taken (${answer.status}): ${await airflowSaid(answer)}`, true);
        if (answer.status >= 500) await look(); // it may have been taken all the same
      }
    } catch {
      say("Airflow could not be reached: nothing was answered as far as this page knows.", true);
    }
    for (const button of buttons) button.disabled = false;
    disarm();
  };

  form.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    const { option } = button.dataset;
    if (armed === option) {
      put(option);
      return;
    }
    disarm();
    armed = option;
    button.textContent = button.dataset.sure;
  });

  const wait = async () => {
    if (!form.isConnected) return; // a newer cycle has superseded the plan
    if (document.hidden && form.hidden === false) return void setTimeout(wait, LOOKS_EVERY_MS);
    if (!(await look())) setTimeout(wait, LOOKS_EVERY_MS);
  };
  wait();
})();
