package main

// The ledger is a file with one key in each line; a database would do better. Whoever writes it holds its lock.
// What ends in /do and /undo is what the bank did; /tombstone is what was undone without having been done.

import (
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
	"syscall"
	"time"
)

const ledgerFile = "payments.log"

// carryOut pays or pays back, once for each key.
func carryOut(r Request) error {
	file, err := os.OpenFile(ledgerFile, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer file.Close() // and with it its lock
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
		return err
	}
	known, err := entries()
	if err != nil {
		return err
	}
	payment := paymentOf(r.EffectKey)
	_, isText := r.Request["amount"].(string)
	paid, undone := known[payment+"/do"] > 0, known[payment+"/undo"]+known[payment+"/tombstone"] > 0
	entry := r.EffectKey
	switch {
	case r.Direction == "do" && undone:
		return fmt.Errorf("%w: it is undone", errRefused)
	case r.Direction == "do" && (!isText || r.Request["currency"] != "EUR"):
		return fmt.Errorf("%w: we take an amount in euros", errRefused)
	case r.Direction == "do" && paid, r.Direction == "undo" && undone:
		return nil
	case r.Within != nil && time.Until(r.completeBy) < r.within():
		return errNotTaken
	case r.Direction == "undo" && !paid:
		entry = payment + "/tombstone"
	}
	_, err = file.WriteString("\n" + entry + "\n") // apart from what a crash left half written
	return err
}

func isKnown(effectKey string) bool {
	known, err := entries()
	payment := paymentOf(effectKey)
	return err == nil && known[payment+"/do"]+known[payment+"/undo"]+known[payment+"/tombstone"] > 0
}

// paymentOf gives what the keys of do and undo share.
func paymentOf(effectKey string) string {
	return effectKey[:strings.LastIndex(effectKey, "/")]
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
		if !strings.HasSuffix(entry, "/tombstone") {
			fmt.Println(entry, times)
		}
	}
}
