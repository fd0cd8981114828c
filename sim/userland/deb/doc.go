// Package deb is the format of Debian's packages and of the database of those that are installed: what deb(5),
// deb-control(5), deb-version(7) and dpkg(1) say. Programs that work with them are in other packages.
package deb
