package session

import "time"

// now is the host's time: the front process, which writes sessions, lives outside of the simulated world.
func now() time.Time { return time.Now() }

// lockPatience is how long another ckadrill that is just ending may still hold a session.
func lockPatience() <-chan time.Time { return time.After(2 * time.Second) }
