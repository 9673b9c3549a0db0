// The desk's script: narrows the list of clusters, and renews it while the page is seen. All works without it, too.
"use strict";

(() => {
  const EVERY_MS = 30_000;
  const main = document.getElementById("content");
  let tag = "";
  let wanted = "";

  const narrow = () => {
    const rows = [...document.querySelectorAll(".clusters tbody tr")];
    const words = wanted.trim().toLowerCase();
    let shown = 0;
    for (const row of rows) {
      row.hidden = words !== "" && !row.textContent.toLowerCase().includes(words);
      shown += row.hidden ? 0 : 1;
    }
    const said = document.getElementById("filtered");
    if (said) said.textContent = words === "" ? "" : `${shown} of ${rows.length}`;
  };

  const begin = () => {
    const field = document.getElementById("filter");
    if (!field) return;
    field.closest("p").hidden = document.querySelectorAll(".clusters tbody tr").length < 9;
    field.value = wanted;
    field.addEventListener("input", () => { wanted = field.value; narrow(); });
    narrow();
    const renewed = document.getElementById("renewed");
    if (renewed) renewed.textContent = "This page renews itself while you see it.";
  };

  const renew = async () => {
    if (document.hidden || main.contains(document.activeElement) && document.activeElement !== main) return;
    try {
      const headers = tag === "" ? {} : { "If-None-Match": tag };
      const answer = await fetch(location.href, { headers, credentials: "same-origin", redirect: "error" });
      if (answer.status !== 200) return;
      tag = answer.headers.get("ETag") ?? "";
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const body = page.getElementById("content");
      if (!body) return;
      const open = [...document.querySelectorAll("details")].map((one) => one.open);
      main.replaceChildren(...document.adoptNode(body).childNodes);
      [...document.querySelectorAll("details")].forEach((one, place) => { one.open = Boolean(open[place]); });
      document.title = page.title;
      begin();
    } catch {
      // The page stays as it is; its foot says of when it is.
    }
  };

  document.addEventListener("keydown", (event) => {
    const field = document.getElementById("filter");
    const typing = event.target.closest("input, textarea, select, [contenteditable]");
    if (event.key === "/" && field && !field.closest("p").hidden && !typing && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      field.focus();
    }
  });
  // A mark of a picture says what it is by its title, which a finger does not bring up: a tap writes it below.
  const REACH = 16;
  document.addEventListener("click", (event) => {
    const drawing = event.target.closest?.("svg.course");
    if (!drawing) return;
    const near = [...drawing.querySelectorAll("title")].map((title) => {
      const { left, right, top, bottom } = title.parentElement.getBoundingClientRect();
      const across = Math.max(left - event.clientX, 0, event.clientX - right);
      return { words: title.textContent, far: Math.hypot(across, Math.max(top - event.clientY, 0, event.clientY - bottom)) };
    }).filter(({ far }) => far <= REACH).sort((one, other) => one.far - other.far);
    let said = document.getElementById("mark-said");
    if (!said) {
      said = document.createElement("p");
      Object.assign(said, { id: "mark-said", className: "note" });
      said.setAttribute("role", "status");
    }
    drawing.after(said);
    said.textContent = near[0]?.words ?? "";
  });

  begin();
  if (document.querySelector(".clusters")) setInterval(renew, EVERY_MS);
})();
