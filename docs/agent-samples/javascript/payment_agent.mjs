// The Agent `payment` in JavaScript: it takes the money once for each effect key, and pays it back.
// Start: `node payment_agent.mjs`. `node payment_agent.mjs effects` prints the number of each effect.
import { setImmediate as nextTurn, setTimeout as sleep } from "node:timers/promises";
import { ServiceBusClient } from "@azure/service-bus";
import Database from "libsql"; // SQLite, with the interface of better-sqlite3

const AT_ONCE = 10;
const RETRY_MS = 1000;

// A payment has one row, which is written in one transaction with its movement.
const ledger = new Database("payments.db");
ledger.exec("PRAGMA busy_timeout = 10000");
const openLedger = () => ledger.exec(`
  CREATE TABLE IF NOT EXISTS payments (key TEXT PRIMARY KEY, state TEXT NOT NULL, amount TEXT);
  CREATE TABLE IF NOT EXISTS movements (effect_key TEXT NOT NULL, amount TEXT NOT NULL);
  CREATE TABLE IF NOT EXISTS closed_starts (start_id TEXT PRIMARY KEY);
`);

function inTransaction(work) {
  ledger.exec("BEGIN IMMEDIATE"); // excludes other processes
  try {
    const result = work();
    ledger.exec("COMMIT");
    return result;
  } catch (fault) {
    ledger.exec("ROLLBACK");
    throw fault;
  }
}

const isText = (it) => typeof it === "string" && it.isWellFormed(); // the ledger would change half of a character
const isLate = (request) => Date.now() >= Date.parse(request.complete_by);

// The key of a payment, which do and undo share: the effect key without the direction.
const keyOf = ({ effect_key }) => effect_key.slice(0, effect_key.lastIndexOf("/"));
const paymentOf = (request) => ledger.prepare("SELECT state, amount FROM payments WHERE key = ?").get(keyOf(request)) ?? {};
const save = (request, state, amount) =>
  ledger.prepare("INSERT OR REPLACE INTO payments VALUES (?, ?, ?)").run(keyOf(request), state, amount);

const move = (request, amount) => // a real Agent calls a bank here
  ledger.prepare("INSERT INTO movements VALUES (?, ?)").run(request.effect_key, amount);

const isClosed = ({ start_id }) => ledger.prepare("SELECT 1 FROM closed_starts WHERE start_id = ?").get(start_id);
const closeStart = ({ start_id }) => { // this start never begins
  ledger.prepare("INSERT OR IGNORE INTO closed_starts VALUES (?)").run(start_id);
  return { outcome: "not_taken" };
};

const done = (request) => ({ outcome: "done", result: { reference: keyOf(request) } });
const refused = (error) => ({ outcome: "refused", error });

const work = {
  "carry out do": (request) => {
    const { amount, currency } = request.request;
    if (currency !== "EUR" || !isText(amount)) return refused("the amount must be in euros");
    const { state } = paymentOf(request);
    if (state === "undone") return refused("the payment was undone");
    if (state === undefined) {
      if (isLate(request)) return closeStart(request);
      save(request, "paid", amount);
      move(request, amount);
    }
    return done(request);
  },
  "carry out undo": (request) => {
    const { state, amount } = paymentOf(request);
    if (state !== "undone") {
      if (isLate(request)) return closeStart(request);
      save(request, "undone", null); // also a payment that was never done
      if (state === "paid") move(request, amount);
    }
    return done(request);
  },
  "find do": (request) => {
    const { state } = paymentOf(request);
    if (state === "undone") return { outcome: "unknown", error: "the payment was undone" };
    if (state === "paid") return done(request);
    closeStart(request);
    return { outcome: "not_done", fences_starts: true };
  },
};

const rules = {
  schema_version: (it) => it === 1,
  task_id: isText,
  step: isText,
  epoch: Number.isInteger,
  start_id: isText,
  direction: (it) => it === "do" || it === "undo",
  kind: (it, { direction }) => isText(it) && Object.hasOwn(work, `${it} ${direction}`),
  effect_key: (it, { direction }) => isText(it) && it.endsWith(`/${direction}`),
  complete_by: (it) => isText(it) && /T.*(Z|[+-]\d\d:\d\d)$/.test(it) && !Number.isNaN(Date.parse(it)),
  idempotent: (it) => typeof it === "boolean",
  request: (it) => typeof it === "object" && it !== null && !Array.isArray(it),
};

function read(message) { // throws an error with the name of the wrong field
  const body = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(message.body));
  if (typeof body !== "object" || body === null) throw new TypeError("the body is not an object");
  const request = { kind: "carry out", ...body };
  for (const [name, isRight] of Object.entries(rules)) {
    if (!isRight(request[name], request)) throw new TypeError(`${name} is missing or wrong`);
  }
  return request;
}

function answer(request) { // returns the reply, or null for no reply; throws an error after a transient fault
  const isCarriedOut = request.kind === "carry out";
  const outcome = inTransaction(() => {
    if (isCarriedOut && isClosed(request)) return { outcome: "not_taken" };
    return work[`${request.kind} ${request.direction}`](request);
  });
  if (isLate(request) && request.idempotent && outcome.outcome !== "not_taken") return null;
  const { schema_version, task_id, step, direction, epoch, start_id, kind } = request;
  return { schema_version, task_id, step, direction, epoch, start_id, kind, ...outcome };
}

async function untilUsable(attempt, isTooLate) { // repeats an attempt while the ledger is busy
  for (;;) {
    try {
      return attempt();
    } catch (fault) {
      console.error(fault.message);
      if (isTooLate()) return null;
      await sleep(RETRY_MS);
    }
  }
}

function serve() {
  // The client renews the locks, connects again, and repeats a failed send.
  const bus = new ServiceBusClient(process.env.ServiceBusConnection, {
    retryOptions: { maxRetries: 10, retryDelayInMs: 1000 },
  });
  const requests = bus.createReceiver("agent-payment-requests", { skipParsingBodyAsJson: true });
  const replies = bus.createSender("agent-replies");
  // Each settlement has its own turn: of a completion and a dead-lettering in one turn, the client (rhea 3.0.5)
  // can make two completions.
  let turn = Promise.resolve();
  const settle = (settlement) => {
    turn = turn.then(() => nextTurn());
    return turn.then(settlement);
  };
  const processMessage = async (message) => {
    let request;
    try {
      request = read(message);
    } catch (fault) {
      const why = { deadLetterReason: "not a request", deadLetterErrorDescription: String(fault) };
      await settle(() => requests.deadLetterMessage(message, why));
      return;
    }
    const reply = await untilUsable(() => answer(request), () => isLate(request));
    if (reply) await replies.sendMessages({ body: Buffer.from(JSON.stringify(reply)) });
    await settle(() => requests.completeMessage(message));
  };
  const processError = async ({ error }) => console.error(error.message);
  requests.subscribe({ processMessage, processError }, { autoCompleteMessages: false, maxConcurrentCalls: AT_ONCE });
}

if (process.argv[2] === "effects") {
  openLedger();
  const counts = ledger.prepare("SELECT effect_key, count(*) AS times FROM movements GROUP BY effect_key");
  for (const { effect_key, times } of counts.all()) console.log(effect_key, times);
} else {
  await untilUsable(openLedger, () => false);
  serve();
}
