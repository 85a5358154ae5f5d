// The addresses of the console's own views.

export function addressOfTask(id) {
  return `#/tasks/${encodeURIComponent(id)}`;
}

export function addressOfList(query) {
  return withQuery("#/tasks", query);
}

export function addressOfErrors(query) {
  return withQuery("#/errors", query);
}

export function addressOfRejected(query) {
  return withQuery("#/rejected", query);
}

export function addressOfQueue(queue) {
  return withQuery("#/", { queue });
}

export function addressOfMessage(id) {
  return `#/rejected/${encodeURIComponent(id)}`;
}

function withQuery(address, query) {
  const given = Object.entries(query).filter(([, value]) => value);
  return given.length ? `${address}?${new URLSearchParams(given)}` : address;
}
