package main

// Tests of the sample in Go, put beside it in a copy of its folder. The clock is synctest's.

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	bus "github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
)

// TestTaken prints the names of the files in `bodies` that are read as requests.
func TestTaken(t *testing.T) {
	files, err := filepath.Glob("bodies/*")
	if err != nil || len(files) == 0 {
		t.Fatal(err, "no bodies")
	}
	for _, file := range files {
		body, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := read(body); err == nil {
			fmt.Println("\ntaken", filepath.Base(file))
		}
	}
}

func TestLedgerThatCanNotBeUsedForAWhileIsTriedAgain(t *testing.T) {
	t.Chdir(t.TempDir())
	synctest.Test(t, func(t *testing.T) {
		if err := os.Mkdir(ledgerFile, 0o700); err != nil {
			t.Fatal(err)
		}
		go func() {
			time.Sleep(3500 * time.Millisecond)
			_ = os.Remove(ledgerFile)
		}()
		reply := answer(payment(time.Now().Add(5 * time.Second)))
		if reply == nil || reply.Outcome != "done" {
			t.Fatal(reply)
		}
	})
}

func TestLedgerThatCanNotBeUsedUntilCompleteByIsSilence(t *testing.T) {
	t.Chdir(t.TempDir())
	synctest.Test(t, func(t *testing.T) {
		if err := os.Mkdir(ledgerFile, 0o700); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		reply := answer(payment(begun.Add(5 * time.Second)))
		if reply != nil || time.Since(begun) != 5*time.Second {
			t.Fatal(reply, time.Since(begun))
		}
	})
}

func TestLockIsRenewed(t *testing.T) {
	lost := &bus.Error{Code: bus.CodeLockLost}
	for name, each := range map[string]struct {
		answers []error
		at      []int
	}{
		"every five seconds, until complete-by":      {nil, []int{5, 10, 15, 20}},
		"again after a second, when that fails":      {[]error{nil, errors.New("no connection")}, []int{5, 10, 11, 16, 21}},
		"no more, when the lock is known to be lost": {[]error{nil, lost}, []int{5, 10}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun, renewals := time.Now(), []int{}
				stop := renewed(t.Context(), begun.Add(22*time.Second), func(context.Context) error {
					renewals = append(renewals, int(time.Since(begun).Seconds()))
					if len(renewals) > len(each.answers) {
						return nil
					}
					return each.answers[len(renewals)-1]
				})
				defer stop()
				time.Sleep(time.Minute)
				if !reflect.DeepEqual(renewals, each.at) {
					t.Fatal(renewals)
				}
			})
		})
	}
}

func TestLockIsNotRenewedOnceItIsSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stop := renewed(t.Context(), time.Now().Add(time.Minute), func(context.Context) error {
			t.Error("renewed")
			return nil
		})
		time.Sleep(4 * time.Second)
		stop()
		time.Sleep(time.Minute)
	})
}

func payment(completeBy time.Time) Request {
	asked := map[string]any{"amount": "1.00", "currency": "EUR"}
	kind := "carry out"
	echo := Echo{Direction: "do", Kind: &kind, StartID: "5f0c3e0a9b7d4c1e"}
	return Request{Echo: echo, EffectKey: "t-1.3f9a0c27/payment/do", Request: asked, completeBy: completeBy}
}
