package images

import (
	"errors"
	"io/fs"
	"path"
	"strings"

	"ckadrill/sim/kernel"
)

// nginxEntrypoint is /docker-entrypoint.sh of the nginx images with the scripts that it runs, of which one edits the
// configuration.
func nginxEntrypoint(p *kernel.Process) int {
	args := p.Argv[1:]
	if len(args) == 0 {
		return 0
	}
	if (args[0] == "nginx" || args[0] == "nginx-debug") && !p.Resumed() {
		nginxConfigure(p)
	}
	code, err := execProgram(p, args)
	if err != nil {
		p.Errorf("/docker-entrypoint.sh: exec: line 47: %s: not found\n", args[0])
		if errors.Is(err, fs.ErrPermission) {
			return 126
		}
		return 127
	}
	return code
}

func nginxConfigure(p *kernel.Process) {
	quiet := p.Getenv("NGINX_ENTRYPOINT_QUIET_LOGS") != ""
	say := func(format string, a ...any) {
		if !quiet {
			p.Printf(format+"\n", a...)
		}
	}
	const dir = "/docker-entrypoint.d/"
	entries, err := p.Files.ReadDir(dir)
	if err != nil || len(entries) == 0 {
		say("/docker-entrypoint.sh: No files found in %s, skipping configuration", dir)
		return
	}
	say("/docker-entrypoint.sh: %s is not empty, will attempt to perform configuration", dir)
	say("/docker-entrypoint.sh: Looking for shell scripts in %s", dir)
	for _, e := range entries {
		name := path.Join(dir, e.Name())
		info, err := e.Info()
		if err != nil {
			continue
		}
		switch ext := path.Ext(name); {
		case ext == ".envsh" && info.Mode()&0o111 != 0:
			say("/docker-entrypoint.sh: Sourcing %s", name)
		case ext == ".sh" && info.Mode()&0o111 != 0:
			say("/docker-entrypoint.sh: Launching %s", name)
			if e.Name() == "10-listen-on-ipv6-by-default.sh" {
				nginxListenIPv6(p, say)
			} else {
				nginxScript(p, name)
			}
		case ext == ".sh", ext == ".envsh":
			say("/docker-entrypoint.sh: Ignoring %s, not executable", name)
		default:
			say("/docker-entrypoint.sh: Ignoring %s", name)
		}
	}
	say("/docker-entrypoint.sh: Configuration complete; ready for start up")
}

// nginxScript runs a script that somebody has put there; those of the image that only act on templates are empty.
func nginxScript(p *kernel.Process, name string) {
	b, err := p.Files.ReadFile(name)
	if err != nil || strings.TrimSpace(string(b)) == "#!/bin/sh" {
		return
	}
	main, argv, err := p.World().Load(p.Files, name, []string{name})
	if err != nil {
		p.Errorf("/docker-entrypoint.sh: line 29: %s: %v\n", name, err)
		return
	}
	s := p.Spec
	s.Argv, s.Env, s.Dir, s.Parent, s.NamespacePID, s.PID = argv, p.Environ(), p.Dir(), p, 0, 0
	p.Host().Processes.Start(s, main).Wait()
}

func nginxListenIPv6(p *kernel.Process, say func(string, ...any)) {
	const me, conf = "10-listen-on-ipv6-by-default.sh: info: ", "/etc/nginx/conf.d/default.conf"
	info, err := p.Files.Stat(conf)
	if err != nil || !info.Mode().IsRegular() {
		say(me + conf + " is not a file or does not exist")
		return
	}
	b, err := p.Files.ReadFile(conf)
	if err != nil {
		return
	}
	// The real script touches the file to find out.
	f, err := p.Files.OpenFile(conf, 1, 0)
	if err != nil {
		say(me + "can not modify " + conf + " (read-only file system?)")
		return
	}
	f.Close()
	text := string(b)
	if strings.Contains(text, "listen  [::]:80;") {
		say(me + "IPv6 listen already enabled")
		return
	}
	say(me + "Getting the checksum of " + conf)
	if !strings.HasPrefix(text, "server {\n    listen       80;\n    server_name  localhost;\n\n    #access_log  /var/log/nginx/host.access.log  main;\n") {
		say(me + conf + " differs from the packaged version")
		return
	}
	p.Files.WriteFile(conf, []byte(strings.Replace(text, "listen       80;\n", "listen       80;\n    listen  [::]:80;\n", 1)), 0o644)
	say(me + "Enabled listen on IPv6 in " + conf)
}
