// This file lets the package declare functions without bodies, for go:linkname.
