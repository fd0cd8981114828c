package runtime

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"ckadrill/sim/kernel"
	"ckadrill/sim/runtime/registry"
)

// makeProcessSpec merges the image's configuration with the container's, as containerd's spec options do.
func (c *Containerd) makeProcessSpec(k *container, b *sandbox, def *registry.Image) error {
	config, img := k.Config, def.Config
	p := processSpec{TTY: config.Tty, Cwd: "/"}
	setString(&p.Cwd, img.WorkingDir)
	setString(&p.Cwd, config.WorkingDir)
	// A command takes the place of the entrypoint and of the image's arguments; arguments alone only of the latter.
	command, args := config.Command, config.Args
	if len(command) == 0 {
		if len(args) == 0 {
			args = img.Cmd
		}
		command = img.Entrypoint
	}
	p.Args = append(slices.Clone(command), args...)
	if len(p.Args) == 0 {
		return errors.New("failed to generate spec: no command specified")
	}
	p.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	if config.Tty {
		p.Env = setEnv(p.Env, "TERM=xterm")
	}
	p.Env = setEnv(p.Env, "HOSTNAME="+c.sandboxHostname(b))
	for _, kv := range img.Env {
		p.Env = setEnv(p.Env, kv)
	}
	for _, e := range config.Envs {
		p.Env = setEnv(p.Env, e.Key+"="+e.Value)
	}
	if err := c.chooseUser(&p, k, img.User); err != nil {
		return err
	}
	k.Process = p
	return nil
}

func setEnv(env []string, kv string) []string {
	key, _, _ := strings.Cut(kv, "=")
	for i := range env {
		if strings.HasPrefix(env[i], key+"=") {
			env[i] = kv
			return env
		}
	}
	return append(env, kv)
}

// processEnv is the environment that a process really gets: runc adds HOME from the container's passwd.
func (c *Containerd) processEnv(files kernel.Files, p processSpec) []string {
	env := slices.Clone(p.Env)
	if !slices.ContainsFunc(env, func(kv string) bool { return strings.HasPrefix(kv, "HOME=") }) {
		home := "/"
		if u, ok := findUser(files, strconv.Itoa(p.UID)); ok && u.home != "" {
			home = u.home
		}
		env = append(env, "HOME="+home)
	}
	return env
}

// chooseUser finds out as whom the container runs: the security context's user or the image's, by name or number.
func (c *Containerd) chooseUser(p *processSpec, k *container, imageUser string) error {
	sc := k.Config.GetLinux().GetSecurityContext()
	files := k.root.files(processSpec{})
	who := imageUser
	switch {
	case sc.GetRunAsUser() != nil:
		who = strconv.FormatInt(sc.RunAsUser.Value, 10)
	case sc.GetRunAsUsername() != "":
		who = sc.RunAsUsername
	}
	name, group, _ := strings.Cut(who, ":")
	if name == "" {
		name = "0"
	}
	u, known := findUser(files, name)
	if !known {
		id, err := strconv.Atoi(name)
		if err != nil {
			return fmt.Errorf("failed to generate spec: no users found: no users found")
		}
		u = user{uid: id}
	}
	p.UID, p.GID = u.uid, u.gid
	if group != "" {
		g, err := findGroup(files, group)
		if err != nil {
			return err
		}
		p.GID = g
	}
	if sc.GetRunAsGroup() != nil {
		p.GID = int(sc.RunAsGroup.Value)
	}
	groups := []int{p.GID}
	if sc.GetSupplementalGroupsPolicy() == runtimeapi.SupplementalGroupsPolicy_Merge && known {
		groups = append(groups, groupsOf(files, u.name)...)
	}
	for _, g := range sc.GetSupplementalGroups() {
		groups = append(groups, int(g))
	}
	slices.Sort(groups)
	p.Groups = slices.Compact(groups)
	return nil
}

type user struct {
	name, home string
	uid, gid   int
}

// findUser looks a name or a number up in the tree's passwd.
func findUser(files kernel.Files, who string) (user, bool) {
	b, err := files.ReadFile("/etc/passwd")
	if err != nil {
		return user{}, false
	}
	for _, line := range strings.Split(string(b), "\n") {
		f := strings.Split(line, ":")
		if len(f) < 6 || f[0] != who && f[2] != who {
			continue
		}
		uid, err1 := strconv.Atoi(f[2])
		gid, err2 := strconv.Atoi(f[3])
		if err1 == nil && err2 == nil {
			return user{f[0], f[5], uid, gid}, true
		}
	}
	return user{}, false
}

func findGroup(files kernel.Files, who string) (int, error) {
	b, _ := files.ReadFile("/etc/group")
	for _, line := range strings.Split(string(b), "\n") {
		if f := strings.Split(line, ":"); len(f) >= 3 && (f[0] == who || f[2] == who) {
			if n, err := strconv.Atoi(f[2]); err == nil {
				return n, nil
			}
		}
	}
	if n, err := strconv.Atoi(who); err == nil {
		return n, nil
	}
	return 0, errors.New("failed to generate spec: no groups found")
}

func groupsOf(files kernel.Files, name string) (l []int) {
	b, _ := files.ReadFile("/etc/group")
	for _, line := range strings.Split(string(b), "\n") {
		f := strings.Split(line, ":")
		if len(f) >= 4 && slices.Contains(strings.Split(f[3], ","), name) {
			if n, err := strconv.Atoi(f[2]); err == nil {
				l = append(l, n)
			}
		}
	}
	return l
}

// lateExecError is a failure of execve itself, which runc finds when the container counts as started already: its words
// are the container's own output.
type lateExecError struct{ name, text string }

func (e *lateExecError) Error() string { return "exec " + e.name + ": " + e.text }

func (e *lateExecError) program(p *kernel.Process) int {
	p.Errorf("exec %s: %s\n", e.name, e.text)
	return 255
}

// loadProgram finds what a process spec runs, with Go's exec.LookPath's errors as runc reports them.
func (c *Containerd) loadProgram(files kernel.Files, p processSpec) (kernel.Program, []string, error) {
	if len(p.Args) == 0 || p.Args[0] == "" {
		return nil, nil, errors.New(`exec: "": executable file not found in $PATH`)
	}
	arg := p.Args[0]
	pathList := ""
	for _, kv := range p.Env {
		if v, ok := strings.CutPrefix(kv, "PATH="); ok {
			pathList = v
		}
	}
	var name string
	if strings.Contains(arg, "/") {
		name = arg
		if !path.IsAbs(name) {
			name = path.Join(p.Cwd, name)
		}
		info, err := files.Stat(name)
		switch {
		case err != nil:
			var pe *fs.PathError
			if errors.As(err, &pe) {
				err = pe.Err
			}
			return nil, nil, fmt.Errorf("exec: %q: stat %s: %w", arg, arg, err)
		case info.IsDir():
			return nil, nil, fmt.Errorf("exec: %q: is a directory", arg)
		case info.Mode()&0o111 == 0:
			return nil, nil, fmt.Errorf("exec: %q: permission denied", arg)
		}
	} else {
		var err error
		if name, err = kernel.LookPath(files, p.Cwd, pathList, arg); err != nil {
			return nil, nil, fmt.Errorf("exec: %q: executable file not found in $PATH", arg)
		}
	}
	argv := append([]string{arg}, p.Args[1:]...)
	main, argv, err := c.w.Load(files, name, argv)
	if err == nil {
		return main, argv, nil
	}
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	var no syscall.Errno
	if errors.As(err, &no) {
		return nil, nil, &lateExecError{name, no.Error()}
	}
	return nil, nil, &lateExecError{name, err.Error()}
}
