//go:build !linux

package early

// useHugePages is of no use where the operating system chooses the size of pages by itself.
func useHugePages() {}
