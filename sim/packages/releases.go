package packages

import (
	"fmt"
	"strings"
)

// Oldest and Newest are the minor releases of Kubernetes that there are packages of.
const Oldest, Newest = 34, 36

// patches says how many patch releases each minor release has had.
var patches = map[int]int{33: 8, 34: 10, 35: 13, 36: 4}

// Releases are the releases of a minor release, the first one first: "v1.35.0", "v1.35.1" ...
func Releases(minor int) []string {
	var l []string
	for patch := range patches[minor] {
		l = append(l, fmt.Sprintf("v1.%d.%d", minor, patch))
	}
	return l
}

// Of cri-tools and kubernetes-cni each repository has the releases of its time.
var (
	criTools = map[int][]string{34: {"1.34.0"}, 35: {"1.34.0", "1.35.0"}, 36: {"1.35.0", "1.36.0"}}
	cni      = map[int][]string{34: {"1.7.1"}, 35: {"1.8.0"}, 36: {"1.8.0", "1.9.0"}}
)

// revision is what the packages of Kubernetes have after their release's number.
const revision = "-1.1"

// Of is the version of a package of Kubernetes: "1.35.9-1.1" of "v1.35.9".
func Of(release string) string { return strings.TrimPrefix(release, "v") + revision }

// minorOf is the minor release that a release belongs to, 0 if it is none.
func minorOf(release string) (minor int) {
	fmt.Sscanf(release, "v1.%d.", &minor)
	return minor
}

// CRITools is the release of cri-tools ("1.35.0") that the repository of a release of Kubernetes has newest.
func CRITools(release string) string { return newest(criTools, release) }

// CNI is the release of kubernetes-cni.
func CNI(release string) string { return newest(cni, release) }

func newest(of map[int][]string, release string) string {
	l := of[min(max(minorOf(release), Oldest), Newest)]
	return l[len(l)-1]
}
