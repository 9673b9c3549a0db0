// Why Airflow's API refused a request, in its own words: a sentence, or one for each part of the request that is wrong.
"use strict";

const airflowSaid = async (answer) => {
  const words = (one) => (typeof one === "string" ? one : one.msg ?? one.message ?? JSON.stringify(one));
  try {
    const { detail } = await answer.json();
    return [detail ?? ""].flat().map(words).join("; ").slice(0, 400);
  } catch {
    return "";
  }
};
