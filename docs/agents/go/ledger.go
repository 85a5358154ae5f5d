package main

// The ledger is a file with one key in each line; a database would do better. Whoever writes it holds its lock.
// What ends in /do and /undo is what the bank did; /tombstone is what was undone without having been done.

import (
	"fmt"
	"os"
	"strings"
	"syscall"
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
	known := entries()
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
	case r.Direction == "undo" && !paid:
		entry = payment + "/tombstone"
	}
	_, err = file.WriteString(entry + "\n")
	return err
}

func isKnown(effectKey string) bool {
	known, payment := entries(), paymentOf(effectKey)
	return known[payment+"/do"]+known[payment+"/undo"]+known[payment+"/tombstone"] > 0
}

// paymentOf gives what the keys of do and undo share.
func paymentOf(effectKey string) string {
	return effectKey[:strings.LastIndex(effectKey, "/")]
}

func entries() map[string]int {
	found := map[string]int{}
	text, _ := os.ReadFile(ledgerFile) // no file: no entries
	for _, line := range strings.Fields(string(text)) {
		found[line]++
	}
	return found
}

func printEffects() {
	for entry, times := range entries() {
		if !strings.HasSuffix(entry, "/tombstone") {
			fmt.Println(entry, times)
		}
	}
}
