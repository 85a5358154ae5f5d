// The Agent `payment`, in Go: takes the money once for each key, and gives it back.
// Run it with `./payment-agent`; `./payment-agent effects` prints what it did.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	bus "github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
)

const renewEvery = 5 * time.Second // the lock holds for 15 s

// Request has what this Agent needs of a request; it ignores the other fields.
type Request struct {
	Echo
	Direction  string         `json:"direction"`
	EffectKey  string         `json:"effect_key"`
	CompleteBy string         `json:"complete_by"`
	Idempotent *bool          `json:"idempotent"`
	Request    map[string]any `json:"request"`
	completeBy time.Time
}

// Echo is what a reply repeats of its request.
type Echo struct {
	SchemaVersion int    `json:"schema_version"`
	TaskID        string `json:"task_id"`
	Step          string `json:"step"`
	Epoch         int    `json:"epoch"`
	Token         string `json:"token"`
}

// Reply is done, with a result, or refused for good, with an error.
type Reply struct {
	Echo
	Outcome string         `json:"outcome"`
	Result  map[string]any `json:"result,omitempty"`
	Error   string         `json:"error,omitempty"`
}

// errRefused is permanent: a retry would get the same answer.
var errRefused = errors.New("refused")

func read(body []byte) (r Request, err error) {
	if err = json.Unmarshal(body, &r); err != nil {
		return r, err
	}
	var noTime error
	r.completeBy, noTime = time.Parse(time.RFC3339, r.CompleteBy)
	for _, rule := range []struct {
		field string
		kept  bool
	}{
		{"schema_version", r.SchemaVersion == 1 || r.SchemaVersion == 2},
		{"task_id", r.TaskID != ""},
		{"step", r.Step != ""},
		{"epoch", r.Epoch > 0},
		{"token", r.Token != ""},
		{"direction", r.Direction == "do" || r.Direction == "undo"},
		{"effect_key", strings.HasSuffix(r.EffectKey, "/"+r.Direction) && len(strings.Fields(r.EffectKey)) == 1},
		{"complete_by", noTime == nil},
		{"request", r.Request != nil},
	} {
		if !rule.kept {
			return r, errors.New(rule.field + " is missing or wrong")
		}
	}
	return r, nil
}

// answer gives the reply to a request, or nil to stay silent.
func answer(r Request) *Reply {
	once := r.Idempotent != nil && !*r.Idempotent
	late := func() bool { return !time.Now().Before(r.completeBy) }
	if late() && !(once && isKnown(r.EffectKey)) {
		return nil
	}
	reply := &Reply{Echo: r.Echo, Outcome: "completed"}
	err := carryOut(r)
	switch {
	case errors.Is(err, errRefused):
		reply.Outcome, reply.Error = "failed", err.Error()
	case err != nil:
		log.Println("transient:", err)
		return nil
	case r.Direction == "do":
		reply.Result = map[string]any{"reference": strings.TrimSuffix(r.EffectKey, "/do")}
	}
	if late() && !once {
		return nil
	}
	return reply
}

func serve(ctx context.Context) error {
	retry := bus.RetryOptions{MaxRetries: 10, RetryDelay: time.Second, MaxRetryDelay: 2 * time.Second}
	options := &bus.ClientOptions{RetryOptions: retry}
	client, err := bus.NewClientFromConnectionString(os.Getenv("ServiceBusConnection"), options)
	if err != nil {
		return err
	}
	defer client.Close(ctx)
	requests, err := client.NewReceiverForQueue("agent-payment-requests", nil)
	if err != nil {
		return err
	}
	replies, err := client.NewSender("agent-replies", nil)
	if err != nil {
		return err
	}
	for {
		messages, err := requests.ReceiveMessages(ctx, 1, nil)
		if err != nil {
			return err
		}
		for _, message := range messages {
			if err := handle(ctx, requests, replies, message); err != nil {
				return err // its lock ends, and the request comes again
			}
		}
	}
}

func handle(ctx context.Context, requests *bus.Receiver, replies *bus.Sender, message *bus.ReceivedMessage) error {
	request, err := read(message.Body)
	if err != nil {
		reason, why := "not a request", err.Error()
		return requests.DeadLetterMessage(ctx, message, &bus.DeadLetterOptions{Reason: &reason, ErrorDescription: &why})
	}
	defer renewed(ctx, requests, message)()
	if reply := answer(request); reply != nil {
		body, err := json.Marshal(reply)
		if err != nil {
			return err
		}
		if err := replies.SendMessage(ctx, &bus.Message{Body: body}, nil); err != nil {
			return err
		}
	}
	return requests.CompleteMessage(ctx, message, nil)
}

// renewed keeps the message's lock until the function that it returns is called.
func renewed(ctx context.Context, requests *bus.Receiver, message *bus.ReceivedMessage) func() {
	ctx, stop := context.WithCancel(ctx)
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(renewEvery):
				_ = requests.RenewMessageLock(ctx, message, nil) // a lost lock brings the request again
			}
		}
	}()
	return stop
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "effects" {
		printEffects()
		return
	}
	for {
		fmt.Fprintln(os.Stderr, "connecting again:", serve(context.Background()))
		time.Sleep(time.Second)
	}
}
