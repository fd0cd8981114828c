package images

import "ckadrill/sim/kernel"

// noNewPrivileges is nnp of the image nonewprivs: a program with the set-user-id bit, which says as whom it runs.
func noNewPrivileges(p *kernel.Process) int {
	p.Printf("Effective uid: %d\n", p.Cred.UID)
	return 0
}
