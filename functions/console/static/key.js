// The function key: taken from the address that the console was opened with, or asked for, and kept in this tab.

const KEPT = "operators-function-key";
// What a header can hold: with anything else no request would leave, which is not for want of an answer.
const SENDABLE = /^[ -~]+$/;

export function key() {
  return sessionStorage.getItem(KEPT);
}

export function keyHeaders() {
  const given = key();
  return given !== null && SENDABLE.test(given) ? { "x-functions-key": given } : {};
}

export function keep(given) {
  sessionStorage.setItem(KEPT, given);
}

// Takes `?code=…` out of the address, so that it is in no bookmark, no history and on no screenshot.
export function takeKeyFromAddress() {
  const given = new URLSearchParams(location.search).get("code");
  if (given !== null) {
    keep(given);
    history.replaceState(null, "", location.pathname + location.hash);
  }
}
