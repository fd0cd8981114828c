package ssh

import (
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"

	"ckadrill/sim/userland/libc"
)

const clientUsage = `usage: ssh [-46AaCfGgKkMNnqsTtVvXxYy] [-B bind_interface] [-b bind_address]
           [-c cipher_spec] [-D [bind_address:]port] [-E log_file]
           [-e escape_char] [-F configfile] [-I pkcs11] [-i identity_file]
           [-J destination] [-L address] [-l login_name] [-m mac_spec]
           [-O ctl_cmd] [-o option] [-P tag] [-p port] [-R address]
           [-S ctl_path] [-W host:port] [-w local_tun[:remote_tun]]
           destination [command [argument ...]]
       ssh [-Q query_option]
`

// clientOptions is ssh's option string: options may stand before and after the destination, and end with the command.
const clientOptions = "+46AaCfGgKkMNnqsTtVvXxYyB:b:c:D:E:e:F:I:i:J:L:l:m:O:o:P:p:R:S:W:w:Q:"

// settings are what options and configuration files say about a connection; the first that says something counts.
type settings struct {
	host, hostName, user string
	port                 int
	timeout              time.Duration
	quiet, noInput       bool
	verbose              bool
	terminal             int // how often -t was given, -1 for -T
	family               string
	config               string
	command              *string
}

// errUsage asks for the usage text.
var errUsage = errors.New("usage")

// parse reads ssh's command line.
func (s *settings) parse(c *libc.Prog, args []string) error {
	for {
		opts, rest, err := libc.Getopt(args, clientOptions)
		if err != nil {
			c.Errorf("ssh: %v\n", err)
			return errUsage
		}
		for _, o := range opts {
			if err := s.option(c, o.Name, o.Value); err != nil {
				return err
			}
		}
		if len(rest) == 0 {
			break
		}
		if s.host == "" {
			if err := s.destination(rest[0]); err != nil {
				return err
			}
			args = rest[1:]
			continue
		}
		command := strings.Join(rest, " ")
		s.command = &command
		break
	}
	if s.host == "" {
		return errUsage
	}
	return nil
}

// destination reads [user@]host or ssh://[user@]host[:port].
func (s *settings) destination(d string) error {
	uri, isURI := strings.CutPrefix(d, "ssh://")
	if isURI {
		d = strings.TrimSuffix(uri, "/")
	}
	if i := strings.LastIndexByte(d, '@'); i >= 0 {
		if s.user == "" {
			s.user = d[:i]
		}
		d = d[i+1:]
	}
	if i := strings.LastIndexByte(d, ':'); isURI && i >= 0 {
		if err := s.setPort(d[i+1:]); err != nil {
			return err
		}
		d = d[:i]
	}
	if d == "" || strings.HasPrefix(d, "-") {
		return errUsage
	}
	s.host = d
	return nil
}

func (s *settings) setPort(v string) error {
	n, err := strconv.Atoi(v)
	if err != nil || n < 1 || n > 65535 {
		return fmt.Errorf("Bad port '%s'", v)
	}
	if s.port == 0 {
		s.port = n
	}
	return nil
}

func (s *settings) option(c *libc.Prog, name, value string) error {
	switch name {
	case "V":
		c.Errorf("%s\n", fullName)
		c.Exit(0)
	case "l":
		if s.user == "" {
			s.user = value
		}
	case "p":
		return s.setPort(value)
	case "o":
		return s.set("command-line", 0, value)
	case "i":
		if _, err := c.Files.Stat(c.Path(value)); err != nil {
			c.Errorf("Warning: Identity file %s not accessible: %s.\n", value, libc.Strerror(err))
		}
	case "t":
		s.terminal++
	case "T":
		s.terminal = -1
	case "q":
		s.quiet = true
	case "n":
		s.noInput = true
	case "v":
		s.verbose = true
	case "4", "6":
		s.family = name
	case "F":
		s.config = value
	case "f", "N", "D", "L", "R", "W", "J", "w", "O", "Q", "G", "M", "s":
		return fmt.Errorf("ckadrill does not simulate ssh -%s yet", name)
	}
	return nil
}

// acknowledged are the configuration keywords that make no difference here.
var acknowledged = strings.Fields(`addkeystoagent addressfamily batchmode canonicalizehostname checkhostip ciphers compression connectionattempts controlmaster controlpath controlpersist
	enableescapecommandline escapechar exitonforwardfailure fingerprinthash forwardagent forwardx11 forwardx11trusted gatewayports globalknownhostsfile gssapiauthentication
	gssapidelegatecredentials hashknownhosts hostbasedauthentication hostkeyalgorithms hostkeyalias identitiesonly identityagent identityfile ipqos kbdinteractiveauthentication
	kexalgorithms loglevel logverbose macs nohostauthenticationforlocalhost numberofpasswordprompts passwordauthentication permitlocalcommand preferredauthentications pubkeyauthentication
	rekeylimit sendenv serveralivecountmax serveraliveinterval setenv streamlocalbindmask streamlocalbindunlink stricthostkeychecking syslogfacility tcpkeepalive updatehostkeys
	userknownhostsfile verifyhostkeydns visualhostkey include`)

// set applies one line of configuration.
func (s *settings) set(file string, line int, text string) error {
	key, value, ok := strings.Cut(strings.TrimSpace(text), "=")
	if f := strings.Fields(text); !ok || len(f) > 1 && !strings.Contains(f[0], "=") {
		key, value = strings.TrimSpace(text), ""
		if i := strings.IndexAny(key, " \t="); i >= 0 {
			key, value = key[:i], strings.TrimLeft(key[i:], " \t=")
		}
	}
	key, value = strings.TrimSpace(key), strings.Trim(strings.TrimSpace(value), `"`)
	if value == "" {
		return fmt.Errorf("%s line %d: no argument after keyword \"%s\"", file, line, strings.ToLower(key))
	}
	switch k := strings.ToLower(key); {
	case k == "user":
		if s.user == "" {
			s.user = value
		}
	case k == "port":
		if s.setPort(value) != nil {
			return fmt.Errorf("%s line %d: Bad number '%s'.", file, line, value)
		}
	case k == "hostname":
		if s.hostName == "" {
			s.hostName = value
		}
	case k == "connecttimeout":
		n, err := strconv.Atoi(strings.TrimSuffix(value, "s"))
		if err != nil {
			return fmt.Errorf("%s line %d: invalid time value.", file, line)
		}
		if s.timeout == 0 {
			s.timeout = time.Duration(n) * time.Second
		}
	case k == "requesttty":
		switch value {
		case "no":
			s.terminal = -1
		case "yes", "force":
			s.terminal += 2
		}
	case k == "proxyjump" || k == "proxycommand" || strings.HasSuffix(k, "forward") || k == "match" || k == "remotecommand":
		return fmt.Errorf("ckadrill does not simulate ssh's %s yet", key)
	case !contains(acknowledged, k):
		return fmt.Errorf("%s: line %d: Bad configuration option: %s", file, line, k)
	}
	return nil
}

func contains(l []string, s string) bool {
	for _, x := range l {
		if x == s {
			return true
		}
	}
	return false
}

// configure reads the configuration files of the user and the system.
func (s *settings) configure(c *libc.Prog) error {
	files := []string{path.Join(c.Getenv("HOME"), ".ssh/config"), "/etc/ssh/ssh_config"}
	if s.config != "" {
		files = []string{c.Path(s.config)}
	}
	for _, f := range files {
		b, err := c.Files.ReadFile(f)
		if err != nil {
			if s.config != "" {
				return fmt.Errorf("Can't open user config file %s: %s", s.config, libc.Strerror(err))
			}
			continue
		}
		applies := true
		for i, l := range strings.Split(string(b), "\n") {
			l = strings.TrimSpace(l)
			if l == "" || l[0] == '#' {
				continue
			}
			if f := strings.Fields(l); strings.EqualFold(f[0], "host") {
				applies = matches(f[1:], s.host)
				continue
			}
			if !applies {
				continue
			}
			if err := s.set(f, i+1, l); err != nil {
				return err
			}
		}
	}
	return nil
}

// matches says whether a host is named by patterns of a Host line, of which one with a "!" excludes.
func matches(patterns []string, host string) bool {
	found := false
	for _, p := range patterns {
		p, not := strings.CutPrefix(p, "!")
		if ok, _ := path.Match(p, host); ok {
			if not {
				return false
			}
			found = true
		}
	}
	return found
}
