package controlplane

import (
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	_ "unsafe" // for go:linkname

	"ckadrill/sim/kernel"

	utilversion "k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apimachinery/pkg/version"
	_ "k8s.io/client-go/pkg/version"
	componentversion "k8s.io/component-base/version"
)

// DefaultVersion is what a component is when its executable does not say.
const DefaultVersion = "v1.35.9"

const versionLine = "version "

// Executable is the content of the executable file of a component of a version ("v1.35.9"): what it reports, and prints
// for --version, is in the file, so it changes when an image of another tag is used.
func Executable(program, version string) []byte {
	return append(kernel.Executable(program), versionLine+version+"\n"...)
}

// versionOf reads the version from the file that the process executes.
func versionOf(p *kernel.Process) string {
	if p.Files == nil || len(p.Argv) == 0 {
		return DefaultVersion
	}
	name, err := kernel.LookPath(p.Files, p.Dir(), p.Getenv("PATH"), p.Argv[0])
	if err != nil {
		return DefaultVersion
	}
	b, err := p.Files.ReadFile(name)
	if err != nil {
		return DefaultVersion
	}
	_, rest, _ := strings.Cut(string(b), "\n")
	if v, ok := strings.CutPrefix(rest, versionLine); ok {
		v, _, _ = strings.Cut(v, "\n")
		if _, err := utilversion.ParseSemantic(v); err == nil {
			return v
		}
	}
	return DefaultVersion
}

// Upstream knows its version once per host process, from the linker. These are the places; see [asVersion].
var (
	//go:linkname gitVersion k8s.io/component-base/version.gitVersion
	gitVersion string
	//go:linkname gitMajor k8s.io/component-base/version.gitMajor
	gitMajor string
	//go:linkname gitMinor k8s.io/component-base/version.gitMinor
	gitMinor string
	//go:linkname gitCommit k8s.io/component-base/version.gitCommit
	gitCommit string
	//go:linkname gitTreeState k8s.io/component-base/version.gitTreeState
	gitTreeState string
	//go:linkname dynamicGitVersion k8s.io/component-base/version.dynamicGitVersion
	dynamicGitVersion atomic.Value
	//go:linkname clientGitVersion k8s.io/client-go/pkg/version.gitVersion
	clientGitVersion string
)

var versionMu sync.Mutex

// asVersion runs f while upstream takes itself for the process's version.
func asVersion(p *kernel.Process, f func()) {
	versionMu.Lock()
	defer versionMu.Unlock()
	setVersion(versionOf(p))
	f()
}

func setVersion(v string) {
	s := utilversion.MustParseSemantic(v)
	gitVersion, clientGitVersion = v, v
	gitMajor, gitMinor = utilversion.Itoa(s.Major()), utilversion.Itoa(s.Minor())
	gitCommit, gitTreeState = strings.Repeat("0", 40), "clean"
	dynamicGitVersion.Store(v)
}

// versionInfo is what the component knows of its build.
func versionInfo(p *kernel.Process) (i version.Info) {
	asVersion(p, func() { i = componentversion.Get() })
	return i
}

// userAgent is client-go's default user agent of the process; client-go itself would name the host's executable.
func userAgent(p *kernel.Process) string {
	return p.Name() + "/" + versionOf(p) + " (linux/" + runtime.GOARCH + ") kubernetes/" + strings.Repeat("0", 7)
}
