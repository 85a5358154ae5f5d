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
	"unicode/utf8"

	bus "github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
)

const (
	renewEvery = 5 * time.Second // the lock holds for 15 s
	againAfter = time.Second
)

// Request has what this Agent needs of a request; it ignores the other fields.
type Request struct {
	Echo
	Direction  string          `json:"direction"`
	EffectKey  string          `json:"effect_key"`
	CompleteBy string          `json:"complete_by"`
	Within     *float64        `json:"complete_within"` // seconds
	Idempotent json.RawMessage `json:"idempotent"`      // a bool would hide a null
	Request    map[string]any  `json:"request"`
	completeBy time.Time
	once       bool
}

// Echo is what a reply repeats of its request.
type Echo struct {
	SchemaVersion int    `json:"schema_version"`
	TaskID        string `json:"task_id"`
	Step          string `json:"step"`
	Epoch         int    `json:"epoch"`
	Token         string `json:"token"`
}

// Reply is done, with a result, or refused for good, with an error, or not taken.
type Reply struct {
	Echo
	Outcome string         `json:"outcome"`
	Result  map[string]any `json:"result,omitempty"`
	Error   string         `json:"error,omitempty"`
}

// errRefused is permanent: a retry would get the same answer.
var errRefused = errors.New("refused")

// errNotTaken is for what waited so long that too little time is left, and of which nothing was begun.
var errNotTaken = errors.New("not taken")

func read(body []byte) (r Request, err error) {
	if !utf8.Valid(body) {
		return r, errors.New("it is not in UTF-8")
	}
	if err = json.Unmarshal(body, &r); err != nil {
		return r, err
	}
	var noTime error
	r.completeBy, noTime = time.Parse(time.RFC3339, r.CompleteBy)
	idempotent := string(r.Idempotent)
	r.once = idempotent == "false"
	for _, rule := range []struct {
		field string
		kept  bool
	}{
		{"schema_version", r.SchemaVersion == 1},
		{"task_id", isRead(r.TaskID)},
		{"step", isRead(r.Step)},
		{"epoch", r.Epoch > 0},
		{"token", isRead(r.Token)},
		{"direction", r.Direction == "do" || r.Direction == "undo"},
		{"effect_key", isKey(r.EffectKey) && strings.HasSuffix(r.EffectKey, "/"+r.Direction)},
		{"complete_by", noTime == nil},
		{"complete_within", r.Within == nil || (*r.Within > 0 && *r.Within < 1e9)},
		{"idempotent", r.once || idempotent == "true"},
		{"request", r.Request != nil},
	} {
		if !rule.kept {
			return r, errors.New(rule.field + " is missing or wrong")
		}
	}
	return r, nil
}

// within gives the step's own time.
func (r Request) within() time.Duration {
	return time.Duration(*r.Within * float64(time.Second))
}

// isRead tells whether a text is there, and as it was sent: Go's JSON puts another character for half a one.
func isRead(text string) bool {
	return text != "" && !strings.ContainsRune(text, utf8.RuneError)
}

// isKey tells whether a text can be a line of the ledger.
func isKey(text string) bool {
	return isRead(text) && len(strings.Fields(text)) == 1
}

// answer gives the reply to a request, or nil to stay silent.
func answer(r Request) *Reply {
	late := func() bool { return !time.Now().Before(r.completeBy) }
	if late() && !(r.once && isKnown(r.EffectKey)) {
		return nil
	}
	reply := &Reply{Echo: r.Echo, Outcome: "completed"}
	begun := time.Now()
	err := carryOut(r)
	for ; err != nil && !errors.Is(err, errRefused) && !errors.Is(err, errNotTaken); err = carryOut(r) {
		log.Println("transient:", err)
		time.Sleep(againAfter)
		if late() || (r.Within != nil && time.Since(begun) >= r.within()) {
			return nil
		}
	}
	switch {
	case errors.Is(err, errNotTaken):
		reply.Outcome = "not_taken"
	case err != nil:
		reply.Outcome, reply.Error = "failed", err.Error()
	case r.Direction == "do":
		reply.Result = map[string]any{"reference": strings.TrimSuffix(r.EffectKey, "/do")}
	}
	if late() && !r.once {
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
	defer renewed(ctx, request.completeBy, func(ctx context.Context) error {
		return requests.RenewMessageLock(ctx, message, nil)
	})()
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

// renewed keeps a lock until the function that it returns is called, at most until complete-by.
func renewed(ctx context.Context, completeBy time.Time, renew func(context.Context) error) func() {
	ctx, stop := context.WithDeadline(ctx, completeBy)
	go func() {
		wait := renewEvery
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(wait):
			}
			var fault *bus.Error
			switch err := renew(ctx); {
			case err == nil:
				wait = renewEvery
			case errors.As(err, &fault) && fault.Code == bus.CodeLockLost:
				return // the request comes again
			default:
				wait = againAfter
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
		time.Sleep(againAfter)
	}
}
