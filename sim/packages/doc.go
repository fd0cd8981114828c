// Package packages is the Debian packages that the machines of a cluster are made of and that the internet of the world
// offers: those of Kubernetes at pkgs.k8s.io, containerd.io at download.docker.com, a small part of Ubuntu's archive, and
// cri-dockerd. A package is data; what dpkg does with it makes it a program on a machine.
package packages
