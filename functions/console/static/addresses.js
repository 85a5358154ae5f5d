// The addresses of the console's views.

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

// The overview with the focus on one queue.
export function addressOfQueue(queue) {
  return withQuery("#/", { at: `queue ${queue}` });
}

// The overview with the focus on one gate.
export function addressOfGate(gate) {
  return withQuery("#/", { at: `gate ${gate}` });
}

export function addressOfMessage(id) {
  return `#/rejected/${encodeURIComponent(id)}`;
}

function withQuery(address, query) {
  const given = Object.entries(query).filter(([, value]) => value);
  return given.length ? `${address}?${new URLSearchParams(given)}` : address;
}
