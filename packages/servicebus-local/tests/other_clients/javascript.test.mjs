// The client for JavaScript, unmodified: run by test_other_clients.py against a broker of its own.
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { isServiceBusError, ServiceBusClient } from "@azure/service-bus";

const { CONNECTION_STRING, ADMIN } = process.env;
const client = new ServiceBusClient(CONNECTION_STRING, { retryOptions: { maxRetries: 0 } });
after(() => client.close());

const QUEUE = "orders";
const sender = client.createSender(QUEUE);
const receiver = client.createReceiver(QUEUE);
const deadLetters = client.createReceiver(QUEUE, { subQueueType: "deadLetter" });

async function receive(count = 1, from = receiver) {
  const messages = [];
  while (messages.length < count) {
    const more = await from.receiveMessages(count - messages.length, { maxWaitTimeInMs: 60_000 });
    assert.ok(more.length, `${count - messages.length} messages are missing`);
    messages.push(...more);
  }
  return messages;
}

async function sendAndReceive(message) {
  await sender.sendMessages(message);
  const [received] = await receive();
  return received;
}

test("a message arrives as it was sent", async () => {
  const sent = {
    body: { nested: [1, "two", null] },
    messageId: "m1",
    subject: "subject",
    correlationId: "c1",
    replyTo: "answers",
    contentType: "application/json",
    timeToLive: 60_000,
    applicationProperties: { number: 7, text: "x", yes: true },
  };
  const got = await sendAndReceive(sent);
  for (const [key, value] of Object.entries(sent)) assert.deepEqual(got[key], value, key);
  assert.equal(got.deliveryCount, 0);
  assert.equal(got.expiresAtUtc.getTime(), got.enqueuedTimeUtc.getTime() + 60_000);
  await receiver.completeMessage(got);
});

test("a batch arrives in its order", async () => {
  const batch = await sender.createMessageBatch();
  for (let number = 0; number < 50; number++) assert.ok(batch.tryAddMessage({ body: number }));
  await sender.sendMessages(batch);
  const messages = await receive(50);
  assert.deepEqual(messages.map(({ body }) => body), [...Array(50).keys()]);
  await Promise.all(messages.map((message) => receiver.completeMessage(message)));
});

test("the largest body arrives", async () => {
  const body = Buffer.alloc(261_900, "z");
  const got = await sendAndReceive({ body });
  assert.equal(Buffer.compare(got.body, body), 0);
  await receiver.completeMessage(got);
});

test("properties are changed by abandon, defer and dead letter", async () => {
  const first = await sendAndReceive({ body: "", applicationProperties: { kept: "k", changed: 0 } });
  await receiver.abandonMessage(first, { changed: 1 });
  const [second] = await receive();
  assert.deepEqual([second.deliveryCount, second.applicationProperties], [1, { kept: "k", changed: 1 }]);
  await receiver.deferMessage(second, { changed: 2 });
  const [third] = await receiver.receiveDeferredMessages(second.sequenceNumber);
  assert.deepEqual(third.applicationProperties, { kept: "k", changed: 2 });
  const changes = { deadLetterReason: "bad", deadLetterErrorDescription: "because", changed: 3 };
  await receiver.deadLetterMessage(third, changes);
  const [dead] = await receive(1, deadLetters);
  assert.deepEqual([dead.deadLetterReason, dead.deadLetterErrorDescription], ["bad", "because"]);
  assert.equal(dead.applicationProperties.changed, 3);
  await deadLetters.completeMessage(dead);
});

test("deferred messages are settled", async () => {
  const got = await sendAndReceive({ body: "later" });
  await receiver.deferMessage(got);
  const [deferred] = await receiver.receiveDeferredMessages(got.sequenceNumber);
  await receiver.renewMessageLock(deferred);
  await receiver.completeMessage(deferred);
  assert.deepEqual(await receiver.receiveDeferredMessages(got.sequenceNumber).catch(codeOf), "MessageNotFound");
});

test("a scheduled message is cancelled", async () => {
  const due = new Date(Date.now() + 3_600_000);
  const [number] = await sender.scheduleMessages({ body: "later" }, due);
  const [peeked] = await receiver.peekMessages(1, { fromSequenceNumber: number });
  assert.equal(peeked.state, "scheduled");
  await sender.cancelScheduledMessages(number);
  assert.equal(await sender.cancelScheduledMessages(number).catch(codeOf), "MessageNotFound");
});

test("a refused verdict is reported at once, and its message comes again", async () => {
  const got = await sendAndReceive({ body: "busy" });
  await inject({ kind: "server-busy", queue: QUEUE, count: 1 });
  assert.equal(await receiver.completeMessage(got).catch(codeOf), "ServiceBusy");
  await inject({ kind: "expire-locks", queue: QUEUE });
  const [again] = await receive();
  await receiver.completeMessage(again);
});

test("a lost lock is reported", async () => {
  const got = await sendAndReceive({ body: "lost" });
  await inject({ kind: "expire-locks", queue: QUEUE });
  assert.equal(await receiver.completeMessage(got).catch(codeOf), "MessageLockLost");
  const [again] = await receive();
  await receiver.completeMessage(again);
});

test("receivers that delete, and come and go, lose nothing", async () => {
  const names = [...Array(600).keys()].map(String);
  const solo = client.createSender("solo");
  for (let at = 0; at < names.length; at += 100)
    await solo.sendMessages(names.slice(at, at + 100).map((body) => ({ body })));
  const got = [];
  while (got.length < names.length) {
    const passing = client.createReceiver("solo", { receiveMode: "receiveAndDelete" });
    const messages = await passing.receiveMessages(50, { maxWaitTimeInMs: 60_000 });
    await passing.close();
    assert.ok(messages.length, `${names.length - got.length} messages are lost`);
    got.push(...messages.map(({ body }) => body));
  }
  assert.deepEqual(got, names);
});

test("subscribing receives everything", async () => {
  await sender.sendMessages([...Array(30).keys()].map((body) => ({ body })));
  const seen = [];
  const subscriber = client.createReceiver(QUEUE);
  await new Promise((resolve, reject) => {
    const processMessage = async ({ body }) => seen.push(body) === 30 && resolve();
    subscriber.subscribe({ processMessage, processError: async ({ error }) => reject(error) });
  });
  await subscriber.close();
  assert.deepEqual(seen, [...Array(30).keys()]);
});

test("an unknown queue is not found", async () => {
  const nowhere = client.createSender("nowhere");
  assert.equal(await nowhere.sendMessages({ body: "" }).catch(codeOf), "MessagingEntityNotFound");
});

async function inject(fault) {
  await fetch(`${ADMIN}/faults`, { method: "POST", body: JSON.stringify(fault) });
}

function codeOf(error) {
  assert.ok(isServiceBusError(error), error);
  return error.code;
}
