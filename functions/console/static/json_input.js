// A field for a JSON object: a step's result, or an event. Its numbers go on as they were written.

import { el } from "./elements.js";

export function jsonInput(label) {
  const field = el("textarea", { id: "content", rows: 4, class: "code", spellcheck: "false", autocomplete: "off" });
  field.value = "{}";
  return { content: [el("label", { for: field.id }, label), field], field, read: () => read(field) };
}

function read(field) {
  let content;
  try {
    content = JSON.parse(field.value, asWritten);
  } catch (error) {
    throw wrong(field, `This is not JSON: ${error.message}`);
  }
  if (typeof content !== "object" || content === null || Array.isArray(content) || JSON.isRawJSON(content)) {
    throw wrong(field, "This must be a JSON object, such as {\"receipt\": \"R-1\"}.");
  }
  return content;
}

// As numbers of JavaScript, those of more than 16 digits would be rounded: a receipt's would be another's.
function asWritten(_name, value, { source }) {
  return typeof value === "number" ? JSON.rawJSON(source) : value;
}

function wrong(field, text) {
  return Object.assign(new Error(text), { field });
}
