// Package haproxy is the program "haproxy", as far as it leads TCP connections to servers whose health it checks: its
// configuration file, the ways to balance, checks by connecting and by HTTP, and what it says of them (haproxy 2.8).
package haproxy
