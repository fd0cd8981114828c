package worker

// outsideLock is a mutex that goroutines of the bubble share with others. A wait for a sync.Mutex counts as idle in the
// bubble, so that simulated time would pass while somebody outside holds it; a wait for a channel that was made outside
// holds time.
type outsideLock chan struct{}

func newOutsideLock() outsideLock { return make(outsideLock, 1) }

func (l outsideLock) Lock()   { l <- struct{}{} }
func (l outsideLock) Unlock() { <-l }
