// The addresses of the console's own views.

export function addressOfTask(id) {
  return `#/tasks/${encodeURIComponent(id)}`;
}

export function addressOfList(query) {
  const given = Object.entries(query).filter(([, value]) => value);
  return given.length ? `#/tasks?${new URLSearchParams(given)}` : "#/tasks";
}
