// Package filesystem is a Linux file system in memory: trees of inodes with owners, modes, times, links and a hard size
// limit, which can be cloned copy-on-write (image layers) and frozen in small parts; and views of them, which are mount
// namespaces (a machine's, a container's).
package filesystem
