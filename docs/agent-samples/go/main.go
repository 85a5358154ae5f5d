// The Agent `payment` in Go: it takes the money once for each effect key, and pays it back.
// Start: `./payment-agent`. `./payment-agent effects` prints the number of each effect.
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
	renewEvery = 5 * time.Second // the lock lasts 15 s
	retryAfter = time.Second
)

// Request has the fields that this Agent uses; it ignores the others.
type Request struct {
	Echo
	EffectKey  string          `json:"effect_key"`
	CompleteBy string          `json:"complete_by"`
	Idempotent json.RawMessage `json:"idempotent"` // a bool would accept null
	Request    map[string]any  `json:"request"`
	completeBy time.Time
	once       bool
}

// Echo has the fields that a reply repeats.
type Echo struct {
	SchemaVersion int     `json:"schema_version"`
	TaskID        string  `json:"task_id"`
	Step          string  `json:"step"`
	Direction     string  `json:"direction"`
	Epoch         int     `json:"epoch"`
	StartID       string  `json:"start_id"`
	Kind          *string `json:"kind"`
}

// Reply has the outcome of a request.
type Reply struct {
	Echo
	Outcome      string         `json:"outcome"`
	Result       map[string]any `json:"result,omitempty"`
	Error        string         `json:"error,omitempty"`
	FencesStarts bool           `json:"fences_starts,omitempty"`
}

func read(body []byte) (r Request, err error) {
	if !utf8.Valid(body) {
		return r, errors.New("the body is not in UTF-8")
	}
	kind := "carry out"
	r.Kind = &kind
	if err = json.Unmarshal(body, &r); err != nil {
		return r, err
	}
	var noTime error
	r.completeBy, noTime = time.Parse(time.RFC3339, r.CompleteBy)
	idempotent := string(r.Idempotent)
	r.once = idempotent == "false"
	for _, rule := range []struct {
		field  string
		isKept bool
	}{
		{"schema_version", r.SchemaVersion == 1},
		{"task_id", isRead(r.TaskID)},
		{"step", isRead(r.Step)},
		{"epoch", r.Epoch > 0},
		{"start_id", isWord(r.StartID)},
		{"direction", r.Direction == "do" || r.Direction == "undo"},
		{"kind", r.Kind != nil && (*r.Kind == "carry out" || r.isFind())},
		{"effect_key", isWord(r.EffectKey) && strings.HasSuffix(r.EffectKey, "/"+r.Direction)},
		{"complete_by", noTime == nil},
		{"idempotent", r.once || idempotent == "true"},
		{"request", r.Request != nil},
	} {
		if !rule.isKept {
			return r, errors.New(rule.field + " is missing or wrong")
		}
	}
	return r, nil
}

func (r Request) isFind() bool {
	return r.Kind != nil && *r.Kind == "find" && r.Direction == "do"
}

func (r Request) isLate() bool {
	return !time.Now().Before(r.completeBy)
}

// isRead returns whether a text is not empty and as it was sent: Go's JSON replaces half of a character.
func isRead(text string) bool {
	return text != "" && !strings.ContainsRune(text, utf8.RuneError)
}

// isWord returns whether a text can be a line of the ledger.
func isWord(text string) bool {
	return isRead(text) && len(strings.Fields(text)) == 1
}

// answer returns the reply to a request, or nil for no reply. It repeats the attempt after a transient fault.
func answer(r Request) *Reply {
	reply, err := attempt(r)
	for ; err != nil; reply, err = attempt(r) {
		log.Println("transient:", err)
		time.Sleep(retryAfter)
		if r.isLate() {
			return nil
		}
	}
	if r.isLate() && !r.once && reply.Outcome != "not_taken" {
		return nil
	}
	reply.Echo = r.Echo
	return &reply
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
				return err // the request is delivered again after its lock
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

// renewed renews a lock until the returned function is called, at most until the deadline.
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
				return // the request is delivered again
			default:
				wait = retryAfter
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
		time.Sleep(retryAfter)
	}
}
