package ssh

import (
	"fmt"
	"net"
	"path"
	"slices"
	"strconv"
	"strings"

	"ckadrill/sim/kernel"
	"ckadrill/sim/userland/libc"
)

const configFile = "/etc/ssh/sshd_config"

// serverConfig is what an sshd reads of its configuration.
type serverConfig struct {
	ports        []string
	listen       []string // addresses, with or without a port
	permitRoot   string
	allow, deny  []string // patterns of users' names
	permitTTY    bool
	forced       string // the command that runs instead of any other
	noPublicKeys bool
}

// serverKeywords are those of sshd_config(5); the ones that the configuration above does not take make no difference here.
var serverKeywords = strings.Fields(`acceptenv addressfamily allowagentforwarding allowgroups allowstreamlocalforwarding allowtcpforwarding allowusers authenticationmethods authorizedkeyscommand
	authorizedkeyscommanduser authorizedkeysfile authorizedprincipalscommand authorizedprincipalscommanduser authorizedprincipalsfile banner casignaturealgorithms challengeresponseauthentication
	channeltimeout chrootdirectory ciphers clientalivecountmax clientaliveinterval compression debianbanner denygroups denyusers disableforwarding exposeauthinfo fingerprinthash forcecommand gatewayports
	gssapiauthentication gssapicleanupcredentials gssapistrictacceptorcheck hostbasedacceptedalgorithms hostbasedauthentication hostcertificate hostkey hostkeyagent hostkeyalgorithms ignorerhosts
	ignoreuserknownhosts include ipqos kbdinteractiveauthentication kerberosauthentication kexalgorithms keyregenerationinterval listenaddress logingracetime loglevel logverbose macs match maxauthtries maxsessions
	maxstartups modulifile passwordauthentication permitemptypasswords permitlisten permitopen permitrootlogin permittty permittunnel permituserenvironment permituserrc persourcemaxstartups
	persourcenetblocksize pidfile port printlastlog printmotd protocol pubkeyacceptedalgorithms pubkeyauthentication pubkeyauthoptions rekeylimit requiredrsasize revokedkeys rdomain securitykeyprovider setenv
	streamlocalbindmask streamlocalbindunlink strictmodes subsystem syslogfacility tcpkeepalive trustedusercakeys unusedconnectiontimeout usedns usepam versionaddendum x11displayoffset x11forwarding
	x11uselocalhost xauthlocation useprivilegeseparation`)

// readConfig reads a server's configuration. The error is what sshd prints before it ends.
func readConfig(files kernel.Files, name string, overrides []string) (*serverConfig, error) {
	c := &serverConfig{permitTTY: true}
	for _, o := range overrides {
		if bad := c.line(files, "command line", 0, o, 0); bad != "" {
			return nil, fmt.Errorf("%s", bad)
		}
	}
	b, err := files.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("%s: %s", name, libc.Strerror(err))
	}
	if err := c.parse(files, name, string(b), 0); err != nil {
		return nil, err
	}
	return c, nil
}

func (c *serverConfig) parse(files kernel.Files, name, text string, depth int) error {
	var problems []string
	options := 0
	for i, l := range strings.Split(text, "\n") {
		if strings.EqualFold(strings.Fields(l + " -")[0], "match") {
			break // what follows holds under conditions, which are not simulated
		}
		if bad := c.line(files, name, i+1, l, depth); bad != "" {
			problems = append(problems, bad)
			if !strings.Contains(bad, ": Bad configuration option: ") {
				return fmt.Errorf("%s", strings.Join(problems, "\n"))
			}
			options++
		}
	}
	if options > 0 {
		return fmt.Errorf("%s\n%s: terminating, %d bad configuration options", strings.Join(problems, "\n"), name, options)
	}
	return nil
}

// line applies one line, and returns what is wrong with it.
func (c *serverConfig) line(files kernel.Files, name string, number int, text string, depth int) string {
	text = strings.TrimSpace(text)
	if text == "" || text[0] == '#' {
		return ""
	}
	key, rest := text, ""
	if i := strings.IndexAny(text, " \t="); i >= 0 {
		key, rest = text[:i], strings.TrimLeft(text[i:], " \t=")
	}
	args := strings.Fields(rest)
	for i := range args {
		args[i] = strings.Trim(args[i], `"`)
	}
	k := strings.ToLower(key)
	if !slices.Contains(serverKeywords, k) {
		return fmt.Sprintf("%s: line %d: Bad configuration option: %s", name, number, key)
	}
	if len(args) == 0 {
		return fmt.Sprintf("%s line %d: no argument after keyword \"%s\"", name, number, key)
	}
	switch k {
	case "port":
		if n, err := strconv.Atoi(args[0]); err != nil || n < 1 || n > 65535 {
			return fmt.Sprintf("%s line %d: Badly formatted port number.", name, number)
		}
		c.ports = append(c.ports, args[0])
	case "listenaddress":
		c.listen = append(c.listen, args[0])
	case "permitrootlogin":
		if !slices.Contains([]string{"yes", "no", "prohibit-password", "without-password", "forced-commands-only"}, args[0]) {
			return fmt.Sprintf("%s line %d: unsupported option \"%s\".", name, number, args[0])
		}
		if c.permitRoot == "" {
			c.permitRoot = args[0]
		}
	case "pubkeyauthentication", "permittty", "passwordauthentication", "usepam":
		if args[0] != "yes" && args[0] != "no" {
			return fmt.Sprintf("%s line %d: unsupported option \"%s\".", name, number, args[0])
		}
		switch k {
		case "pubkeyauthentication":
			c.noPublicKeys = args[0] == "no"
		case "permittty":
			c.permitTTY = args[0] == "yes"
		}
	case "allowusers":
		c.allow = append(c.allow, args...)
	case "denyusers":
		c.deny = append(c.deny, args...)
	case "forcecommand":
		if c.forced == "" {
			c.forced = rest
		}
	case "include":
		if depth >= 16 {
			return fmt.Sprintf("%s line %d: Too many recursive configuration includes", name, number)
		}
		for _, pattern := range args {
			if !path.IsAbs(pattern) {
				pattern = path.Join("/etc/ssh", pattern)
			}
			for _, f := range glob(files, pattern) {
				b, err := files.ReadFile(f)
				if err != nil {
					continue
				}
				if err := c.parse(files, f, string(b), depth+1); err != nil {
					return err.Error()
				}
			}
		}
	}
	return ""
}

// glob lists the files of a directory whose names match a pattern's last element.
func glob(files kernel.Files, pattern string) []string {
	dir, base := path.Split(pattern)
	entries, err := files.ReadDir(path.Clean(dir))
	if err != nil {
		return nil
	}
	var l []string
	for _, e := range entries {
		if ok, _ := path.Match(base, e.Name()); ok {
			l = append(l, path.Join(dir, e.Name()))
		}
	}
	return l
}

// addresses are what the server listens on.
func (c *serverConfig) addresses() []string {
	ports := c.ports
	if len(ports) == 0 {
		ports = []string{"22"}
	}
	hosts := c.listen
	if len(hosts) == 0 {
		hosts = []string{"0.0.0.0", "::"}
	}
	var l []string
	for _, h := range hosts {
		if host, port, err := net.SplitHostPort(h); err == nil {
			l = append(l, net.JoinHostPort(host, port))
			continue
		}
		for _, p := range ports {
			l = append(l, net.JoinHostPort(strings.Trim(h, "[]"), p))
		}
	}
	return l
}
