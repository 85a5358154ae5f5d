// The Agent `payment`, in JavaScript: takes the money once for each key, and gives it back.
// Run it with `node payment_agent.mjs`; `node payment_agent.mjs effects` prints what it did.
import { setImmediate as nextTurn, setTimeout as sleep } from "node:timers/promises";
import { ServiceBusClient } from "@azure/service-bus";
import Database from "libsql"; // SQLite, with the interface of better-sqlite3

const AT_ONCE = 10;
const AGAIN_AFTER = 1000; // milliseconds

class Refused extends Error {} // permanently: a retry would get the same answer

class NotTaken extends Error {} // it waited so long that too little time is left, and nothing of it was begun

// Each key has one row, and what moves the money is written with it, or not at all.
const ledger = new Database("payments.db");
ledger.exec("PRAGMA busy_timeout = 10000");
const openLedger = () => ledger.exec(`
  CREATE TABLE IF NOT EXISTS payments (key TEXT PRIMARY KEY, state TEXT NOT NULL);
  CREATE TABLE IF NOT EXISTS movements (effect_key TEXT NOT NULL, amount TEXT NOT NULL);
`);

function inTransaction(work) {
  ledger.exec("BEGIN IMMEDIATE"); // keeps other processes out
  try {
    const result = work();
    ledger.exec("COMMIT");
    return result;
  } catch (fault) {
    ledger.exec("ROLLBACK");
    throw fault;
  }
}

const isText = (it) => typeof it === "string" && it.isWellFormed(); // the ledger would change half a character

// Do and undo meet in one row, without the direction in its key.
const keyOf = (request) => request.effect_key.slice(0, request.effect_key.lastIndexOf("/"));
const stateOf = (request) => ledger.prepare("SELECT state FROM payments WHERE key = ?").get(keyOf(request))?.state;
const keep = (request, state) => ledger.prepare("INSERT OR REPLACE INTO payments VALUES (?, ?)").run(keyOf(request), state);

const move = (request, amount) => // stands for what the bank does
  ledger.prepare("INSERT INTO movements VALUES (?, ?)").run(request.effect_key, amount);
const paid = (request) =>
  ledger.prepare("SELECT amount FROM movements WHERE effect_key = ?").get(`${keyOf(request)}/do`).amount;

function seeThatThereIsTime({ complete_by, complete_within }) { // whoever asks keeps all others out
  const left = Date.parse(complete_by) - Date.now();
  if (complete_within && left < complete_within * 1000) throw new NotTaken();
}

const carryOut = {
  do: (request) => inTransaction(() => {
    const { amount, currency } = request.request;
    if (currency !== "EUR" || !isText(amount)) throw new Refused("we take an amount in euros");
    const state = stateOf(request);
    if (state === "undone") throw new Refused("it was undone before it was done");
    if (state === undefined) {
      seeThatThereIsTime(request);
      keep(request, "paid");
      move(request, amount);
    }
    return { reference: keyOf(request) };
  }),
  undo: (request) => inTransaction(() => {
    if (stateOf(request) !== "undone") seeThatThereIsTime(request);
    if (stateOf(request) === "paid") move(request, paid(request));
    keep(request, "undone"); // also what was never paid: a tombstone
    return {};
  }),
};

const rules = {
  schema_version: (it) => it === 1,
  task_id: isText,
  step: isText,
  epoch: Number.isInteger,
  token: isText,
  direction: (it) => isText(it) && Object.hasOwn(carryOut, it),
  effect_key: (it, { direction }) => isText(it) && it.endsWith(`/${direction}`),
  complete_by: (it) => isText(it) && /T.*(Z|[+-]\d\d:\d\d)$/.test(it) && !Number.isNaN(Date.parse(it)),
  complete_within: (it) => it === undefined || it === null || (typeof it === "number" && it > 0),
  idempotent: (it) => typeof it === "boolean",
  request: (it) => typeof it === "object" && it !== null && !Array.isArray(it),
};

function read(message) { // throws for what is not a request, and says what is wrong
  const request = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(message.body));
  for (const [name, isRight] of Object.entries(rules)) {
    if (!isRight(request?.[name], request)) throw new TypeError(`${name} is missing or wrong`);
  }
  return request;
}

const isLate = (request) => Date.now() >= Date.parse(request.complete_by);

function answer(request) { // gives the reply, or null to stay silent; throws for what is transient
  const once = !request.idempotent;
  if (isLate(request) && !(once && stateOf(request))) return null;
  const { schema_version, task_id, step, epoch, token } = request;
  const reply = { schema_version, task_id, step, epoch, token };
  try {
    Object.assign(reply, { outcome: "completed", result: carryOut[request.direction](request) });
  } catch (fault) {
    if (fault instanceof NotTaken) Object.assign(reply, { outcome: "not_taken" });
    else if (fault instanceof Refused) Object.assign(reply, { outcome: "failed", error: fault.message.slice(0, 1000) });
    else throw fault;
  }
  return isLate(request) && !once ? null : reply;
}

async function untilUsable(work, isTooLate) { // retries what is transient, such as a ledger that stays busy
  for (;;) {
    try {
      return work();
    } catch (fault) {
      console.error(fault.message);
      if (isTooLate()) return null;
      await sleep(AGAIN_AFTER);
    }
  }
}

function serve() {
  // The client renews the locks, connects again, and tries again to send.
  const bus = new ServiceBusClient(process.env.ServiceBusConnection, {
    retryOptions: { maxRetries: 10, retryDelayInMs: 1000 },
  });
  const requests = bus.createReceiver("agent-payment-requests", { skipParsingBodyAsJson: true });
  const replies = bus.createSender("agent-replies");
  // Each verdict has its own turn: of a completion and a dead-lettering in one turn, the client (rhea 3.0.5) can
  // make two completions.
  let turn = Promise.resolve();
  const settle = (verdict) => {
    turn = turn.then(() => nextTurn());
    return turn.then(verdict);
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
    const giveUpAt = Date.now() + (request.complete_within ?? Infinity) * 1000;
    const reply = await untilUsable(() => answer(request), () => isLate(request) || Date.now() >= giveUpAt);
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
