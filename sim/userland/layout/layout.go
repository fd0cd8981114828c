// Package layout says which commands the systems of the simulation have, and where: an Ubuntu machine, and the busybox,
// Alpine and Debian roots of container images. It is data; the programs themselves are registered elsewhere.
package layout

import (
	"io/fs"
	"slices"
	"strings"
)

// Command is one command's file: an executable that holds a registered program, or a symbolic link.
type Command struct {
	Path    string
	Program string
	Link    string // target of a symbolic link
	Mode    fs.FileMode
}

// Commands returns the commands of a system: "ubuntu", "busybox", "alpine" or "debian-slim"; ok is false for any other.
// Directories are those of the system itself: where /bin is a link to usr/bin, files are in /usr/bin.
func Commands(system string) (l []Command, ok bool) {
	switch system {
	case "ubuntu":
		return ubuntu(), true
	case "busybox", "alpine":
		return busybox(system), true
	case "debian", "debian-slim":
		return debian(), true
	}
	return nil, false
}

func words(s string) []string { return strings.Fields(s) }

// essential are the commands that Debian and Ubuntu have in /usr/bin even in their smallest installation.
var essential = words(`[ arch b2sum base64 basename bash cat chgrp chmod chown cksum clear cmp comm cp csplit cut dash date dd df diff dir dirname dmesg du echo egrep env
	expand expr factor false fgrep find findmnt fmt fold getent grep groups gunzip gzip head hostname id install join kill link ln logger logname ls lsblk md5sum mkdir mkfifo mknod
	mktemp more mount mv nice nl nohup nproc numfmt od paste perl pinky printenv printf ps pwd readlink realpath rev rm rmdir sed seq sha1sum sha256sum sha512sum shuf sleep sort
	split stat stty su sum sync tac tail tar tee test timeout touch tput tr true truncate tty umount uname unexpand uniq unlink uptime vdir wc which who whoami xargs yes zcat`)

// debianLacks are the essential commands that a slim image of Debian comes without.
var debianLacks = words("kill ps rev uptime")

// ubuntuBin and ubuntuSbin are what an Ubuntu server has beside them.
var (
	ubuntuBin = words(`apt apt-cache apt-get apt-mark add-apt-repository bc busctl bzip2 chage chattr column crontab curl dig dpkg dpkg-deb dpkg-query ed emacs fallocate file free fuser git gpg gpgv
		host hostnamectl htop ip journalctl jq killall last less localectl loginctl lsattr lscpu lsns lsof lspci man mountpoint nano nc netstat networkctl nslookup nsenter openssl passwd pgrep ping
		pidof pkill prlimit python3 resolvectl rsync scp screen sftp snap socat ss ssh ssh-keygen strace strings sudo sudoedit systemctl systemd-analyze systemd-cgls systemd-cgtop systemd-run taskset
		timedatectl tmux top traceroute tree udevadm unshare update-alternatives vim vmstat w watch wget xxd hexdump xz yq zip unzip patch lsb_release`)
	ubuntuSbin = words(`aa-status adduser apparmor_parser blkid blockdev bridge chroot conntrack depmod ebtables ethtool fdisk groupadd groupdel halt insmod ip ip6tables ip6tables-restore ip6tables-save
		iptables iptables-restore iptables-save ipvsadm losetup lsmod mkfs.ext4 mkswap modinfo modprobe netplan nft parted poweroff reboot resize2fs rmmod shutdown sshd swapoff swapon sysctl tc tcpdump
		ufw useradd userdel usermod visudo`)
	setuid = words("/usr/bin/sudo /usr/bin/su /usr/bin/mount /usr/bin/umount /usr/bin/passwd")
)

func plain(dir string, names []string) []Command {
	l := make([]Command, 0, len(names))
	for _, n := range names {
		c := Command{Path: dir + "/" + n, Program: n}
		if slices.Contains(setuid, c.Path) {
			c.Mode = fs.ModeSetuid | 0o755
		}
		l = append(l, c)
	}
	return l
}

func ubuntu() []Command {
	l := append(plain("/usr/bin", essential), plain("/usr/bin", ubuntuBin)...)
	l = append(l, plain("/usr/sbin", ubuntuSbin)...)
	l = slices.DeleteFunc(l, func(c Command) bool {
		return slices.Contains(words("/usr/bin/vim /usr/bin/nc /usr/bin/which /usr/bin/sudoedit"), c.Path)
	})
	l = append(l,
		Command{Path: "/usr/bin/sh", Link: "dash"}, Command{Path: "/usr/bin/rbash", Link: "bash"}, Command{Path: "/usr/bin/sudoedit", Link: "sudo"},
		Command{Path: "/usr/bin/mawk", Program: "awk"}, Command{Path: "/usr/bin/vim.basic", Program: "vim"}, Command{Path: "/usr/bin/nc.openbsd", Program: "nc"},
		Command{Path: "/usr/bin/which.debianutils", Program: "which"})
	for _, a := range [][2]string{{"awk", "/usr/bin/mawk"}, {"vi", "/usr/bin/vim.basic"}, {"vim", "/usr/bin/vim.basic"}, {"editor", "/usr/bin/vim.basic"}, {"nc", "/bin/nc.openbsd"},
		{"which", "/usr/bin/which.debianutils"}, {"pager", "/usr/bin/less"}} {
		l = append(l, alternative(a[0], a[1])...)
	}
	return l
}

// alternative is the two links of a command that update-alternatives manages.
func alternative(name, target string) []Command {
	return []Command{{Path: "/usr/bin/" + name, Link: "/etc/alternatives/" + name}, {Path: "/etc/alternatives/" + name, Link: target}}
}

func debian() []Command {
	names := slices.DeleteFunc(slices.Clone(essential), func(n string) bool { return slices.Contains(debianLacks, n) })
	l := append(plain("/usr/bin", append(names, "nsenter", "unshare")), plain("/usr/sbin", []string{"chroot"})...)
	l = append(l, Command{Path: "/usr/bin/sh", Link: "dash"}, Command{Path: "/usr/bin/mawk", Program: "awk"})
	return append(l, alternative("awk", "/usr/bin/mawk")...)
}

// applets are busybox's, in the directories that it has on Alpine.
var applets = map[string][]string{
	"/bin": words(`arch ash base64 cat chgrp chmod chown cp date dd df dmesg dumpkmap echo ed egrep false fdflush fgrep fsync getopt grep gunzip gzip hostname kill link linux32 linux64 ln ls
		lsattr mkdir mkfifo mknod mktemp more mount mountpoint mv netstat nice pidof ping ping6 pipe_progress printenv ps pwd reformime rev rm rmdir run-parts sed setpriv setserial sh sleep stat
		stty su sync tar touch true umount uname usleep watch zcat`),
	"/sbin": words("halt ifconfig init ip lsmod modprobe poweroff reboot route swapoff swapon sysctl"),
	"/usr/bin": words(`[ [[ awk basename bc bunzip2 cal cksum clear cmp comm crontab cut dc diff dirname dos2unix du env expand expr factor fallocate find fold free fuser groups head
		hexdump hostid id install killall less logger lsof md5sum nc nl nohup nproc nsenter nslookup od passwd paste pgrep pkill printf pstree pwdx readlink realpath renice reset seq
		sha1sum sha256sum sha512sum shuf sort split strings sum tac tail tee telnet test time timeout top tr traceroute tree truncate tty uniq unix2dos unlink unshare uptime vi
		vmstat w wc wget which who whoami xargs xxd yes`),
	"/usr/sbin": words("adduser chroot crond httpd"),
}

// busyboxOwn are the applets whose registered program is not named "busybox-" and the applet.
var busyboxOwn = map[string]string{"sh": "ash", "ash": "ash", "ip": "ip", "netstat": "netstat", "ping6": "busybox-ping"}

func busybox(system string) []Command {
	var l []Command
	for _, dir := range []string{"/bin", "/sbin", "/usr/bin", "/usr/sbin"} {
		for _, n := range applets[dir] {
			program := busyboxOwn[n]
			if program == "" {
				program = "busybox-" + n
			}
			d := dir
			if system == "busybox" { // the image of that name has all of them in one directory
				d = "/bin"
			}
			l = append(l, Command{Path: d + "/" + n, Program: program})
		}
	}
	if system == "busybox" {
		l = append(l, Command{Path: "/usr/bin/env", Link: "../../bin/env"})
	}
	return l
}
