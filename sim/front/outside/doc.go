// Package outside is the cluster's API on the host's network, for clients that are no part of the simulation: kubectl, k9s,
// helm, anything that reads a kubeconfig.
//
// A client's TLS ends here, and what is inside of it goes byte by byte over a connection of the world to the simulated API
// server, in whose TLS it is wrapped again. So nothing of HTTP is done twice, and watches, SPDY and websockets need no code.
// The client's TLS cannot go through as it is, for two reasons: the keys of an embedded cluster are public, as everybody has
// the program, so a certificate that its CA has signed proves nothing on the host's network; and its certificates are valid in
// simulated time, which may be years from the host's.
//
// A client that shows the certificate of this call's own CA is the cluster's administrator. Any other is nobody until it shows
// the API server a token.
package outside
