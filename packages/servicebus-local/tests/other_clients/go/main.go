// The client for Go, unmodified: run by test_other_clients.py against a broker of its own.
package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	bus "github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
)

const queue = "orders"

var (
	ctx    context.Context
	client *bus.Client
)

func main() {
	var cancel context.CancelFunc
	ctx, cancel = context.WithTimeout(context.Background(), 100*time.Second)
	defer cancel()
	client = must(bus.NewClientFromConnectionString(os.Getenv("CONNECTION_STRING"), nil))
	defer client.Close(ctx)
	for _, check := range []func(){settleInAllWays, settleDeferred, largestBody, largestScheduled, footer, refusedVerdict, unknownQueue, comeAndGo} {
		check()
	}
	fmt.Println("all passed")
}

func settleInAllWays() {
	sender, receiver := must(client.NewSender(queue, nil)), must(client.NewReceiverForQueue(queue, nil))
	defer sender.Close(ctx)
	defer receiver.Close(ctx)
	send(sender, "first", "abandoned", "dead")
	first, abandoned, dead := receive(receiver), receive(receiver), receive(receiver)
	check(receiver.CompleteMessage(ctx, first, nil))
	changed := map[string]any{"changed": int64(7)}
	check(receiver.AbandonMessage(ctx, abandoned, &bus.AbandonMessageOptions{PropertiesToModify: changed}))
	again := receive(receiver)
	equal(again.DeliveryCount, uint32(2)) // this client counts the delivery under way, too
	equal(again.ApplicationProperties["changed"], any(int64(7)))
	check(receiver.RenewMessageLock(ctx, again, nil))
	check(receiver.CompleteMessage(ctx, again, nil))
	reason := "bad"
	check(receiver.DeadLetterMessage(ctx, dead, &bus.DeadLetterOptions{Reason: &reason}))
	options := &bus.ReceiverOptions{SubQueue: bus.SubQueueDeadLetter, ReceiveMode: bus.ReceiveModeReceiveAndDelete}
	deadLetters := must(client.NewReceiverForQueue(queue, options))
	defer deadLetters.Close(ctx)
	equal(*receive(deadLetters).DeadLetterReason, reason)
}

func settleDeferred() {
	sender, receiver := must(client.NewSender(queue, nil)), must(client.NewReceiverForQueue(queue, nil))
	defer sender.Close(ctx)
	defer receiver.Close(ctx)
	send(sender, "deferred")
	message := receive(receiver)
	check(receiver.DeferMessage(ctx, message, nil))
	deferred := must(receiver.ReceiveDeferredMessages(ctx, []int64{*message.SequenceNumber}, nil))
	check(receiver.RenewMessageLock(ctx, deferred[0], nil))
	check(receiver.CompleteMessage(ctx, deferred[0], nil))
}

func largestBody() {
	body := string(make([]byte, 262_000))
	for _, mode := range []bus.ReceiveMode{bus.ReceiveModePeekLock, bus.ReceiveModeReceiveAndDelete} {
		sender := must(client.NewSender(queue, nil))
		receiver := must(client.NewReceiverForQueue(queue, &bus.ReceiverOptions{ReceiveMode: mode}))
		send(sender, body, body)
		peeked := must(receiver.PeekMessages(ctx, 2, nil))
		equal(len(peeked), 2)
		for range 2 {
			message := receive(receiver)
			equal(len(message.Body), len(body))
			if mode == bus.ReceiveModePeekLock {
				check(receiver.CompleteMessage(ctx, message, nil))
			}
		}
		check(receiver.Close(ctx))
		check(sender.Close(ctx))
	}
}

func footer() {
	sender, receiver := must(client.NewSender(queue, nil)), must(client.NewReceiverForQueue(queue, nil))
	defer sender.Close(ctx)
	defer receiver.Close(ctx)
	check(sender.SendAMQPAnnotatedMessage(ctx, &bus.AMQPAnnotatedMessage{
		Body:                bus.AMQPAnnotatedMessageBody{Data: [][]byte{[]byte("footed")}},
		Footer:              map[any]any{"checksum": "abc"},
		DeliveryAnnotations: map[any]any{"hop": "one"},
	}, nil))
	message := receive(receiver)
	equal(message.RawAMQPMessage.Footer["checksum"], any("abc"))
	equal(message.RawAMQPMessage.DeliveryAnnotations["hop"], any("one"))
	check(receiver.CompleteMessage(ctx, message, nil))
}

func largestScheduled() {
	sender := must(client.NewSender(queue, nil))
	defer sender.Close(ctx)
	later := time.Now().Add(time.Hour)
	message := &bus.Message{Body: make([]byte, 262_000)}
	numbers := must(sender.ScheduleMessages(ctx, []*bus.Message{message, message}, later, nil))
	check(sender.CancelScheduledMessages(ctx, numbers, nil))
}

// refusedVerdict: the client tries again, but sends nothing then, and says that it is done. The message stays.
func refusedVerdict() {
	sender, receiver := must(client.NewSender(queue, nil)), must(client.NewReceiverForQueue(queue, nil))
	defer sender.Close(ctx)
	defer receiver.Close(ctx)
	send(sender, "busy")
	message := receive(receiver)
	inject(`{"kind": "server-busy", "queue": "orders", "count": 1}`)
	check(receiver.CompleteMessage(ctx, message, nil))
	inject(`{"kind": "expire-locks", "queue": "orders"}`)
	again := receive(receiver)
	equal(*again.SequenceNumber, *message.SequenceNumber)
	check(receiver.CompleteMessage(ctx, again, nil))
}

func inject(fault string) {
	answer := must(http.Post(os.Getenv("ADMIN")+"/faults", "application/json", strings.NewReader(fault)))
	check(answer.Body.Close())
}

func unknownQueue() {
	sender := must(client.NewSender("nowhere", nil))
	defer sender.Close(ctx)
	var refused *bus.Error
	err := sender.SendMessage(ctx, &bus.Message{}, nil)
	equal(errors.As(err, &refused) && refused.Code == bus.CodeNotFound, true)
}

// comeAndGo receives 4,000 messages with receivers that are closed after a part.
func comeAndGo() {
	const count = 4000
	for _, mode := range []bus.ReceiveMode{bus.ReceiveModeReceiveAndDelete, bus.ReceiveModePeekLock} {
		sender := must(client.NewSender("solo", nil))
		for at := 0; at < count; at += 500 {
			batch := must(sender.NewMessageBatch(ctx, nil))
			for number := range 500 {
				check(batch.AddMessage(&bus.Message{Body: []byte(strconv.Itoa(at + number))}, nil))
			}
			check(sender.SendMessageBatch(ctx, batch, nil))
		}
		check(sender.Close(ctx))
		seen := map[string]bool{}
		for receivers := 0; len(seen) < count; receivers++ {
			equal(receivers < 400, true)
			receivePart(seen, mode)
		}
		fmt.Println(len(seen), "received by receivers that come and go")
	}
}

func receivePart(seen map[string]bool, mode bus.ReceiveMode) {
	receiver := must(client.NewReceiverForQueue("solo", &bus.ReceiverOptions{ReceiveMode: mode}))
	brief, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	messages, err := receiver.ReceiveMessages(brief, 100, nil)
	if err != nil {
		fmt.Println("after", len(seen), "messages:", err)
	}
	for _, message := range messages {
		if mode == bus.ReceiveModePeekLock {
			check(receiver.CompleteMessage(ctx, message, nil))
		}
		seen[string(message.Body)] = true
	}
	check(receiver.Close(ctx))
}

func send(sender *bus.Sender, bodies ...string) {
	for _, body := range bodies {
		check(sender.SendMessage(ctx, &bus.Message{Body: []byte(body)}, nil))
	}
}

func receive(receiver *bus.Receiver) *bus.ReceivedMessage {
	return must(receiver.ReceiveMessages(ctx, 1, nil))[0]
}

func equal[T comparable](got, wanted T) {
	if got != wanted {
		panic(fmt.Sprintf("%v, not %v", got, wanted))
	}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func must[T any](value T, err error) T {
	check(err)
	return value
}
