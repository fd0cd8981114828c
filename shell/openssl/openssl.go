// Package openssl is the program "openssl" of a simulated machine: the commands that are used on a cluster's certificates and
// keys, over the machine's files and network, with OpenSSL 3.0's options, output and error texts.
package openssl

import (
	"fmt"
	"sort"
	"strings"

	"ckadrill/sim/kernel"
)

// Register adds the program to the world.
func Register(w *kernel.World) {
	w.Programs.Register("openssl", func(p *kernel.Process) int { return (&tool{Process: p}).main() })
}

// version is what "openssl version" says: the release of Ubuntu 24.04.
const version = "OpenSSL 3.0.13 30 Jan 2024 (Library: OpenSSL 3.0.13 30 Jan 2024)"

// tool is one run of the program.
type tool struct {
	*kernel.Process
	cmd string // the command's name, as messages begin
}

// commands are the simulated ones. The list of real ones that are not is below.
var commands map[string]func(t *tool, args []string) int

func init() { // help lists them
	commands = map[string]func(t *tool, args []string) int{
		"x509": (*tool).x509, "req": (*tool).req, "genrsa": (*tool).genrsa, "genpkey": (*tool).genpkey, "ecparam": (*tool).ecparam,
		"rsa": (*tool).rsa, "pkey": (*tool).pkey, "ec": (*tool).pkey, "verify": (*tool).verify, "s_client": (*tool).sClient, "rand": (*tool).rand,
		"dgst": (*tool).dgst, "base64": (*tool).base64, "enc": (*tool).enc, "version": (*tool).version, "help": (*tool).help,
		"md5": (*tool).digestCommand, "sha1": (*tool).digestCommand, "sha256": (*tool).digestCommand, "sha384": (*tool).digestCommand, "sha512": (*tool).digestCommand,
	}
}

// notSimulated are commands of OpenSSL that do something else than complain here.
var notSimulated = strings.Fields("asn1parse ca ciphers cmp cms crl crl2pkcs7 dhparam dsa dsaparam engine errstr fipsinstall gendsa " +
	"info kdf list mac nseq ocsp passwd pkcs12 pkcs7 pkcs8 pkeyparam pkeyutl prime rehash rsautl s_server s_time sess_id smime speed " +
	"spkac srp storeutl ts")

func (t *tool) main() int {
	if len(t.Argv) < 2 {
		return t.help(nil)
	}
	t.cmd = t.Argv[1]
	if f, ok := commands[t.cmd]; ok {
		return f(t, t.Argv[2:])
	}
	for _, n := range notSimulated {
		if n == t.cmd {
			t.Errorf("ckadrill does not simulate `openssl %s` yet\n", t.cmd)
			return 1
		}
	}
	t.Errorf("Invalid command '%s'; type \"help\" for a list.\n", t.cmd)
	return 1
}

func (t *tool) help([]string) int {
	names := []string{}
	for n := range commands {
		names = append(names, n)
	}
	sort.Strings(names)
	t.Errorf("help:\n\nStandard commands\n")
	for i, n := range names {
		t.Errorf("%-18s", n)
		if i%4 == 3 || i == len(names)-1 {
			t.Errorf("\n")
		}
	}
	return 0
}

func (t *tool) version(args []string) int {
	o, code := t.parse(args, "a v", "")
	if o == nil {
		return code
	}
	t.Printf("%s\n", version)
	if o.has("a") {
		t.Printf("built on: Mon Feb  2 13:38:33 2026 UTC\nplatform: debian-amd64\nOPENSSLDIR: \"/usr/lib/ssl\"\n")
	}
	return 0
}

// options are a command's parsed options and what follows them.
type options struct {
	values map[string]string
	order  []string // the options as given, repeated ones too
	all    map[string][]string
	args   []string
}

func (o *options) has(name string) bool      { _, ok := o.values[name]; return ok }
func (o *options) get(name string) string    { return o.values[name] }
func (o *options) list(name string) []string { return o.all[name] }

// parse reads options that begin with one or two dashes, as OpenSSL does: flags and valued are names separated by spaces. On
// an error it has printed the message and the options are nil.
func (t *tool) parse(args []string, flags, valued string) (*options, int) {
	o := &options{values: map[string]string{}, all: map[string][]string{}}
	is := func(list, name string) bool {
		for _, n := range strings.Fields(list) {
			if n == name {
				return true
			}
		}
		return false
	}
	for len(args) > 0 {
		a := args[0]
		if !strings.HasPrefix(a, "-") || a == "-" {
			break
		}
		args = args[1:]
		if a == "--" {
			break
		}
		name := strings.TrimPrefix(strings.TrimPrefix(a, "-"), "-")
		name, given, joined := strings.Cut(name, "=")
		switch {
		case is(flags, name):
			o.values[name] = ""
		case is(valued, name):
			if !joined {
				if len(args) == 0 {
					return nil, t.usage("Option -%s needs a value", name)
				}
				given, args = args[0], args[1:]
			}
			o.values[name] = given
			o.all[name] = append(o.all[name], given)
		default:
			return nil, t.usage("Unknown option: %s", a)
		}
		o.order = append(o.order, name)
	}
	o.args = args
	return o, 0
}

// usage prints a complaint about the command line.
func (t *tool) usage(format string, a ...any) int {
	t.Errorf("%s: %s\n%s: Use -help for summary.\n", t.cmd, fmt.Sprintf(format, a...), t.cmd)
	return 1
}
