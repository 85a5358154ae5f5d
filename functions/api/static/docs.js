// Shows the OpenAPI document with Swagger UI. Where the API asks for a function key, so does this page; it keeps
// the key for the tab's life, and sends it with every request of Swagger UI to this host.

const KEY = "function-key";
const DOCUMENT = "/api/openapi.json";

const form = document.getElementById("ask");
const fault = document.getElementById("fault");

function withKey(request) {
  const key = sessionStorage.getItem(KEY);
  if (key && new URL(request.url, location.href).origin === location.origin) {
    request.headers["x-functions-key"] = key;
  }
  request.headers["X-Requested-With"] = "docs"; // what operators' actions ask for
  return request;
}

async function show() {
  const request = withKey({ url: DOCUMENT, headers: {} });
  const answer = await fetch(request.url, { headers: request.headers });
  form.hidden = answer.status !== 401;
  fault.textContent = answer.ok || answer.status === 401 ? "" : `The document can't be had: ${answer.status}.`;
  if (!answer.ok) {
    return;
  }
  window.SwaggerUIBundle({
    dom_id: "#pages",
    spec: await answer.json(),
    requestInterceptor: withKey,
    deepLinking: true,
    validatorUrl: null,
  });
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem(KEY, document.getElementById("key").value);
  tell(show());
});

function tell(showing) {
  showing.catch(() => { fault.textContent = "The API can't be reached."; });
}

tell(show());
