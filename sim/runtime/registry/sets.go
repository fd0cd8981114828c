package registry

import (
	"io/fs"

	"ckadrill/sim/userland/layout"
)

const dir = fs.ModeDir | 0o755

const (
	busyboxPasswd = "root:x:0:0:root:/root:/bin/sh\ndaemon:x:1:1:daemon:/usr/sbin:/bin/false\nbin:x:2:2:bin:/bin:/bin/false\nsys:x:3:3:sys:/dev:/bin/false\nsync:x:4:100:sync:/bin:/bin/sync\nmail:x:8:8:mail:/var/spool/mail:/bin/false\nwww-data:x:33:33:www-data:/var/www:/bin/false\noperator:x:37:37:Operator:/var:/bin/false\nnobody:x:65534:65534:nobody:/home:/bin/false\n"
	busyboxGroup  = "root:x:0:\ndaemon:x:1:\nbin:x:2:\nsys:x:3:\nadm:x:4:\ntty:x:5:\ndisk:x:6:\nlp:x:7:\nmail:x:8:\nkmem:x:9:\nwheel:x:10:root\ncdrom:x:11:\ndialout:x:18:\nfloppy:x:19:\nvideo:x:28:\naudio:x:29:\ntape:x:32:\nwww-data:x:33:\noperator:x:37:\nutmp:x:43:\nplugdev:x:46:\nstaff:x:50:\nlock:x:54:\nnetdev:x:82:\nusers:x:100:\nnobody:x:65534:\n"
	alpinePasswd  = "root:x:0:0:root:/root:/bin/sh\nbin:x:1:1:bin:/bin:/sbin/nologin\ndaemon:x:2:2:daemon:/sbin:/sbin/nologin\nlp:x:4:7:lp:/var/spool/lpd:/sbin/nologin\nsync:x:5:0:sync:/sbin:/bin/sync\nshutdown:x:6:0:shutdown:/sbin:/sbin/shutdown\nhalt:x:7:0:halt:/sbin:/sbin/halt\nmail:x:8:12:mail:/var/mail:/sbin/nologin\nnews:x:9:13:news:/usr/lib/news:/sbin/nologin\ncron:x:16:16:cron:/var/spool/cron:/sbin/nologin\nftp:x:21:21::/var/lib/ftp:/sbin/nologin\nsshd:x:22:22:sshd:/dev/null:/sbin/nologin\ngames:x:35:35:games:/usr/games:/sbin/nologin\nntp:x:123:123:NTP:/var/empty:/sbin/nologin\nguest:x:405:100:guest:/dev/null:/sbin/nologin\nnobody:x:65534:65534:nobody:/:/sbin/nologin\n"
	alpineGroup   = "root:x:0:root\nbin:x:1:root,bin,daemon\ndaemon:x:2:root,bin,daemon\nsys:x:3:root,bin\nadm:x:4:root,daemon\ntty:x:5:\ndisk:x:6:root\nlp:x:7:lp\nkmem:x:9:\nwheel:x:10:root\nfloppy:x:11:root\nmail:x:12:mail\nnews:x:13:news\nuucp:x:14:uucp\ncron:x:16:cron\naudio:x:18:\ncdrom:x:19:\ndialout:x:20:root\nftp:x:21:\nsshd:x:22:\ninput:x:23:\ntape:x:26:root\nvideo:x:27:root\nnetdev:x:28:\nkvm:x:34:kvm\ngames:x:35:\nshadow:x:42:\nwww-data:x:82:\nusers:x:100:games\nntp:x:123:\nabuild:x:300:\nutmp:x:406:\nping:x:999:\nnogroup:x:65533:\nnobody:x:65534:\n"
	debianPasswd  = "root:x:0:0:root:/root:/bin/bash\ndaemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\nbin:x:2:2:bin:/bin:/usr/sbin/nologin\nsys:x:3:3:sys:/dev:/usr/sbin/nologin\nsync:x:4:65534:sync:/bin:/bin/sync\ngames:x:5:60:games:/usr/games:/usr/sbin/nologin\nman:x:6:12:man:/var/cache/man:/usr/sbin/nologin\nlp:x:7:7:lp:/var/spool/lpd:/usr/sbin/nologin\nmail:x:8:8:mail:/var/mail:/usr/sbin/nologin\nnews:x:9:9:news:/var/spool/news:/usr/sbin/nologin\nuucp:x:10:10:uucp:/var/spool/uucp:/usr/sbin/nologin\nproxy:x:13:13:proxy:/bin:/usr/sbin/nologin\nwww-data:x:33:33:www-data:/var/www:/usr/sbin/nologin\nbackup:x:34:34:backup:/var/backups:/usr/sbin/nologin\nlist:x:38:38:Mailing List Manager:/var/list:/usr/sbin/nologin\nirc:x:39:39:ircd:/run/ircd:/usr/sbin/nologin\n_apt:x:42:65534::/nonexistent:/usr/sbin/nologin\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
	debianGroup   = "root:x:0:\ndaemon:x:1:\nbin:x:2:\nsys:x:3:\nadm:x:4:\ntty:x:5:\ndisk:x:6:\nlp:x:7:\nmail:x:8:\nnews:x:9:\nuucp:x:10:\nman:x:12:\nproxy:x:13:\nkmem:x:15:\ndialout:x:20:\nfax:x:21:\nvoice:x:22:\ncdrom:x:24:\nfloppy:x:25:\ntape:x:26:\nsudo:x:27:\naudio:x:29:\ndip:x:30:\nwww-data:x:33:\nbackup:x:34:\noperator:x:37:\nlist:x:38:\nirc:x:39:\nsrc:x:40:\nshadow:x:42:\nutmp:x:43:\nvideo:x:44:\nsasl:x:45:\nplugdev:x:46:\nstaff:x:50:\ngames:x:60:\nusers:x:100:\nnogroup:x:65534:\n"
)

// netshootCommands come on top of Alpine's in nicolaka/netshoot.
var netshootCommands = []string{"bash", "curl", "dig", "host", "jq", "nslookup", "ss", "ip", "iptables", "openssl", "nc", "tcpdump", "drill", "mtr", "zsh"}

// Set returns the files of a base by its name.
func Set(name string) []File {
	switch name {
	case "busybox":
		return withCommands(name, []File{
			{Path: "/etc/passwd", Content: busyboxPasswd}, {Path: "/etc/group", Content: busyboxGroup}, {Path: "/etc/shadow", Mode: 0o640, Content: "root:*::0:::::\n"},
			{Path: "/root", Mode: fs.ModeDir | 0o700}, {Path: "/home", Mode: dir, UID: 65534, GID: 65534}, {Path: "/tmp", Mode: tmp}, {Path: "/var/spool/mail", Mode: dir}, {Path: "/var/www", Mode: dir},
			{Path: "/lib64", Mode: dir}, {Path: "/lib", Mode: dir}, {Path: "/etc/network/if-up.d", Mode: dir}, {Path: "/etc/localtime", Content: "TZif2\x00\nUTC0\n"},
		})
	case "alpine":
		return withCommands(name, []File{
			{Path: "/etc/passwd", Content: alpinePasswd}, {Path: "/etc/group", Content: alpineGroup}, {Path: "/etc/alpine-release", Content: "3.22.2\n"},
			{Path: "/etc/os-release", Content: "NAME=\"Alpine Linux\"\nID=alpine\nVERSION_ID=3.22.2\nPRETTY_NAME=\"Alpine Linux v3.22\"\nHOME_URL=\"https://alpinelinux.org/\"\nBUG_REPORT_URL=\"https://gitlab.alpinelinux.org/alpine/aports/-/issues\"\n"},
			{Path: "/root", Mode: fs.ModeDir | 0o700}, {Path: "/home", Mode: dir}, {Path: "/tmp", Mode: tmp}, {Path: "/var/log", Mode: dir}, {Path: "/opt", Mode: dir}, {Path: "/srv", Mode: dir},
			{Path: "/mnt", Mode: dir}, {Path: "/media", Mode: dir}, {Path: "/run", Mode: dir}, {Path: "/var/tmp", Mode: tmp}, {Path: "/usr/local/bin", Mode: dir},
		})
	case "netshoot":
		files := Set("alpine")
		for _, c := range netshootCommands {
			files = append(files, File{Path: "/usr/local/bin/" + c, Program: c})
		}
		return files
	case "debian", "debian-slim":
		return withCommands(name, []File{
			{Path: "/bin", Link: "usr/bin"}, {Path: "/sbin", Link: "usr/sbin"}, {Path: "/lib", Link: "usr/lib"}, {Path: "/usr/lib", Mode: dir},
			{Path: "/etc/passwd", Content: debianPasswd}, {Path: "/etc/group", Content: debianGroup}, {Path: "/etc/debian_version", Content: "12.12\n"},
			{Path: "/etc/os-release", Content: "PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nNAME=\"Debian GNU/Linux\"\nVERSION_ID=\"12\"\nVERSION=\"12 (bookworm)\"\nVERSION_CODENAME=bookworm\nID=debian\nHOME_URL=\"https://www.debian.org/\"\nSUPPORT_URL=\"https://www.debian.org/support\"\nBUG_REPORT_URL=\"https://bugs.debian.org/\"\n"},
			{Path: "/root", Mode: fs.ModeDir | 0o700}, {Path: "/home", Mode: dir}, {Path: "/tmp", Mode: tmp}, {Path: "/var/log", Mode: dir}, {Path: "/var/lib", Mode: dir}, {Path: "/opt", Mode: dir},
			{Path: "/srv", Mode: dir}, {Path: "/mnt", Mode: dir}, {Path: "/media", Mode: dir}, {Path: "/run", Mode: dir}, {Path: "/var/tmp", Mode: tmp}, {Path: "/usr/local/bin", Mode: dir},
			{Path: "/var/run", Link: "/run"},
		})
	case "distroless":
		return []File{
			{Path: "/etc/passwd", Content: "root:x:0:0:root:/root:/sbin/nologin\nnobody:x:65534:65534:nobody:/nonexistent:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin\n"},
			{Path: "/etc/group", Content: "root:x:0:\nnobody:x:65534:\ntty:x:5:\nstaff:x:50:\nnonroot:x:65532:\n"},
			{Path: "/etc/nsswitch.conf", Content: "hosts: files dns\n"}, {Path: "/tmp", Mode: tmp}, {Path: "/root", Mode: fs.ModeDir | 0o700},
			{Path: "/home/nonroot", Mode: fs.ModeDir | 0o700, UID: 65532, GID: 65532}, {Path: "/var/run", Mode: dir}, {Path: "/run", Mode: dir}, {Path: "/etc/ssl/certs", Mode: dir}, {Path: "/var/lib", Mode: dir}, {Path: "/bin", Mode: dir}, {Path: "/usr/bin", Mode: dir},
		}
	}
	panic("registry: no set of files " + name)
}

const tmp = fs.ModeDir | fs.ModeSticky | 0o777

// withCommands adds the commands of a system to its other files.
func withCommands(system string, files []File) []File {
	commands, ok := layout.Commands(system)
	if !ok {
		panic("registry: no commands of " + system)
	}
	for _, c := range commands {
		files = append(files, File{Path: c.Path, Program: c.Program, Link: c.Link, Mode: c.Mode})
	}
	return files
}
