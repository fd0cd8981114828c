// Package network is the one network of the world: the namespaces of machines and Pods with their interfaces, addresses,
// routes and rules, the sockets that processes open in them, and what decides between a connection, a refusal, a time-out
// and "no route to host". What runs over a connection is real: net/http, crypto/tls, gRPC.
//
// Addresses, routes and rules are plain data in the holder "network". Sockets and connections are not: as with a real
// kernel they end with their process, their machine or their namespace.
package network
