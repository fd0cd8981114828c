package kubelet

// recall gives a resumed kubelet back what it knew.
func (n *node) recall() {}
