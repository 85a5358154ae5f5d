package main

// The ledger is a file with one entry in each line; a database would be better. Its writer locks the file.
// An effect key is a movement of money. `{payment}/tombstone` is a payment that was undone without having been
// done. `closed:{start id}` is a start that never begins.

import (
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
	"syscall"
)

const ledgerFile = "payments.log"

// attempt carries out a request, or looks it up. An error is a transient fault.
func attempt(r Request) (Reply, error) {
	file, err := os.OpenFile(ledgerFile, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return Reply{}, err
	}
	defer file.Close() // and release its lock
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
		return Reply{}, err
	}
	known, err := entries()
	if err != nil {
		return Reply{}, err
	}
	reply, entry := decide(r, known)
	if entry != "" && known[entry] == 0 {
		_, err = file.WriteString("\n" + entry + "\n") // apart from a line that a crash cut off
	}
	return reply, err
}

// decide returns the reply to a request, and the entry of the ledger that makes it true.
func decide(r Request, known map[string]int) (Reply, string) {
	payment, closed := strings.TrimSuffix(r.EffectKey, "/"+r.Direction), "closed:"+r.StartID
	tombstone := payment + "/tombstone"
	isPaid, isUndone := known[payment+"/do"] > 0, known[payment+"/undo"]+known[tombstone] > 0
	done := Reply{Outcome: "done", Result: map[string]any{"reference": payment}}
	_, isText := r.Request["amount"].(string)
	switch {
	case r.isFind() && isUndone:
		return Reply{Outcome: "unknown", Error: "the payment was undone"}, ""
	case r.isFind() && !isPaid:
		return Reply{Outcome: "not_done", FencesStarts: true}, closed
	case r.isFind():
		return done, ""
	case known[closed] > 0:
		return Reply{Outcome: "not_taken"}, ""
	case r.Direction == "do" && isUndone:
		return Reply{Outcome: "refused", Error: "the payment was undone"}, ""
	case r.Direction == "do" && (!isText || r.Request["currency"] != "EUR"):
		return Reply{Outcome: "refused", Error: "the amount must be in euros"}, ""
	case r.Direction == "do" && isPaid, r.Direction == "undo" && isUndone:
		return done, ""
	case r.isLate():
		return Reply{Outcome: "not_taken"}, closed
	case r.Direction == "undo" && !isPaid:
		return done, tombstone
	}
	return done, r.EffectKey
}

func entries() (map[string]int, error) {
	found := map[string]int{}
	text, err := os.ReadFile(ledgerFile)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	for _, line := range strings.Fields(string(text)) {
		found[line]++
	}
	return found, nil
}

func printEffects() {
	known, err := entries()
	if err != nil {
		log.Fatal(err)
	}
	for entry, times := range known {
		if !strings.HasPrefix(entry, "closed:") && !strings.HasSuffix(entry, "/tombstone") {
			fmt.Println(entry, times)
		}
	}
}
