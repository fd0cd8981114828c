// Package ckadrill is the module's root; it holds no code but the test that keeps the arrows between the rooms pointing
// down. The program is cmd/ckadrill.
package ckadrill
