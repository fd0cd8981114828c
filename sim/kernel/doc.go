// Package kernel is what every simulated machine stands on: simulated time, processes as labelled trees of goroutines,
// the one gate through which the outside reaches the world, and the parts of which a frozen world consists.
//
// The law of the world: what must survive is plain data in a [Holder]; any process can be killed and started again from
// it; nothing here or above touches the host; nothing waits for the outside but the [Gate]; randomness comes from the
// world's seed.
package kernel
