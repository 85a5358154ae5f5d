// The client for Java, unmodified: run by test_other_clients.py against a broker of its own.

import com.azure.messaging.servicebus.ServiceBusClientBuilder;
import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.ServiceBusReceiverClient;
import com.azure.messaging.servicebus.ServiceBusSenderClient;
import com.azure.messaging.servicebus.models.AbandonOptions;
import com.azure.messaging.servicebus.models.DeadLetterOptions;
import com.azure.messaging.servicebus.models.ServiceBusReceiveMode;
import com.azure.messaging.servicebus.models.SubQueue;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

class Main {
    static final String QUEUE = "orders";
    static final ServiceBusClientBuilder BUILDER =
        new ServiceBusClientBuilder().connectionString(System.getenv("CONNECTION_STRING"));

    public static void main(String[] arguments) throws Exception {
        settleInAllWays();
        settleDeferred();
        largestBody();
        footer();
        refusedVerdict();
        transactions();
        manyAtOnce();
        comeAndGo(ServiceBusReceiveMode.RECEIVE_AND_DELETE);
        comeAndGo(ServiceBusReceiveMode.PEEK_LOCK);
        System.out.println("all passed");
        System.exit(0);
    }

    static void settleInAllWays() {
        try (var sender = sender(QUEUE); var receiver = receiver(QUEUE, ServiceBusReceiveMode.PEEK_LOCK)) {
            send(sender, "first", "abandoned", "dead");
            var messages = receive(receiver, 3);
            receiver.complete(messages.get(0));
            var changed = Map.<String, Object>of("changed", 7L);
            receiver.abandon(messages.get(1), new AbandonOptions().setPropertiesToModify(changed));
            var again = receive(receiver, 1).get(0);
            equal(again.getDeliveryCount(), 1L);
            equal(again.getApplicationProperties().get("changed"), 7L);
            receiver.renewMessageLock(again);
            receiver.complete(again);
            receiver.deadLetter(messages.get(2), new DeadLetterOptions().setDeadLetterReason("bad"));
        }
        var builder = BUILDER.receiver().queueName(QUEUE).subQueue(SubQueue.DEAD_LETTER_QUEUE);
        try (var deadLetters = builder.buildClient()) {
            var dead = receive(deadLetters, 1).get(0);
            equal(dead.getDeadLetterReason(), "bad");
            deadLetters.complete(dead);
        }
    }

    static void settleDeferred() {
        try (var sender = sender(QUEUE); var receiver = receiver(QUEUE, ServiceBusReceiveMode.PEEK_LOCK)) {
            send(sender, "deferred");
            var message = receive(receiver, 1).get(0);
            receiver.defer(message);
            var deferred = receiver.receiveDeferredMessage(message.getSequenceNumber());
            receiver.renewMessageLock(deferred);
            receiver.complete(deferred);
        }
    }

    static void largestBody() {
        for (var mode : ServiceBusReceiveMode.values()) {
            try (var sender = sender(QUEUE); var receiver = receiver(QUEUE, mode)) {
                var body = new byte[257_000]; // it takes no larger one for a message of 256 KiB
                sender.sendMessage(new ServiceBusMessage(body));
                equal(receiver.peekMessage().getBody().toBytes().length, body.length);
                var message = receive(receiver, 1).get(0);
                equal(message.getBody().toBytes().length, body.length);
                if (mode == ServiceBusReceiveMode.PEEK_LOCK) {
                    receiver.complete(message);
                }
            }
        }
    }

    static void footer() throws Exception {
        try (var sender = sender("handover")) {
            var footed = new ServiceBusMessage("footed");
            footed.getRawAmqpMessage().getFooter().put("checksum", "abc");
            send(sender, "before");
            sender.sendMessage(footed);
            send(sender, "after");
        }
        var seen = new CountDownLatch(3);
        var processor = BUILDER.processor().queueName("handover")
            .processMessage(context -> {
                var footer = context.getMessage().getRawAmqpMessage().getFooter();
                var expected = context.getMessage().getBody().toString().equals("footed") ? "abc" : null;
                equal(footer.get("checksum"), expected);
                seen.countDown();
            })
            .processError(context -> context.getException().printStackTrace())
            .buildProcessorClient();
        processor.start();
        equal(seen.await(20, TimeUnit.SECONDS), true);
        processor.close();
    }

    static void refusedVerdict() throws Exception {
        try (var sender = sender(QUEUE); var receiver = receiver(QUEUE, ServiceBusReceiveMode.PEEK_LOCK)) {
            send(sender, "busy");
            var message = receive(receiver, 1).get(0);
            var fault = "{\"kind\": \"server-busy\", \"queue\": \"orders\", \"count\": 1}";
            var request = HttpRequest.newBuilder(URI.create(System.getenv("ADMIN") + "/faults"))
                .POST(HttpRequest.BodyPublishers.ofString(fault)).build();
            HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.discarding());
            receiver.complete(message); // it sends the verdict again by itself
            equal(receiver.peekMessage(), null);
        }
    }

    static void transactions() {
        try (var sender = sender(QUEUE)) {
            sender.createTransaction();
            throw new AssertionError("a transaction was created");
        } catch (RuntimeException refused) {
            equal(refused.getMessage().contains("The local broker has no transactions."), true);
        }
    }

    static void manyAtOnce() {
        fill(3000);
        var seen = new HashSet<String>();
        try (var receiver = receiver("solo", ServiceBusReceiveMode.RECEIVE_AND_DELETE)) {
            receive(receiver, 3000).forEach(message -> seen.add(message.getBody().toString()));
        }
        equal(seen.size(), 3000);
    }

    static void comeAndGo(ServiceBusReceiveMode mode) {
        fill(2000);
        var seen = new HashSet<String>();
        for (var receivers = 0; seen.size() < 2000; receivers++) {
            equal(receivers < 200, true);
            try (var receiver = receiver("solo", mode)) {
                for (var message : receiver.receiveMessages(100, Duration.ofSeconds(2))) {
                    if (mode == ServiceBusReceiveMode.PEEK_LOCK) {
                        receiver.complete(message);
                    }
                    seen.add(message.getBody().toString());
                }
            }
        }
        System.out.println("2000 received by receivers that come and go, " + mode);
    }

    static void fill(int count) {
        try (var sender = sender("solo")) {
            for (var at = 0; at < count; at += 500) {
                var batch = sender.createMessageBatch();
                for (var number = at; number < at + 500; number++) {
                    equal(batch.tryAddMessage(new ServiceBusMessage(String.valueOf(number))), true);
                }
                sender.sendMessages(batch);
            }
        }
    }

    static ServiceBusSenderClient sender(String queue) {
        return BUILDER.sender().queueName(queue).buildClient();
    }

    static ServiceBusReceiverClient receiver(String queue, ServiceBusReceiveMode mode) {
        var builder = BUILDER.receiver().queueName(queue).receiveMode(mode);
        return builder.maxAutoLockRenewDuration(Duration.ZERO).buildClient();
    }

    static void send(ServiceBusSenderClient sender, String... bodies) {
        for (var body : bodies) {
            sender.sendMessage(new ServiceBusMessage(body));
        }
    }

    static List<ServiceBusReceivedMessage> receive(ServiceBusReceiverClient receiver, int count) {
        var messages = new ArrayList<ServiceBusReceivedMessage>();
        while (messages.size() < count) {
            var before = messages.size();
            receiver.receiveMessages(count - before, Duration.ofSeconds(30)).forEach(messages::add);
            equal(messages.size() > before, true);
        }
        return messages;
    }

    static void equal(Object got, Object wanted) {
        if (!java.util.Objects.equals(got, wanted)) {
            throw new AssertionError(got + ", not " + wanted);
        }
    }
}
