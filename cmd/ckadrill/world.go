package main

import (
	"ckadrill/sim/front"
	"ckadrill/sim/wire"
)

// startWorld starts a world and waits until it is ready.
func startWorld(b wire.Boot) (*front.Worker, wire.Ready, error) {
	w, err := front.Start(b)
	if err != nil {
		return nil, wire.Ready{}, err
	}
	r, err := w.Ready()
	if err != nil {
		w.Kill()
		return nil, wire.Ready{}, err
	}
	return w, r, nil
}
