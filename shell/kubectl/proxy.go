package kubectl

import (
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/kubectl/pkg/proxy"
)

// replaceProxy has "kubectl proxy" listen on the simulated machine.
func (i *invocation) replaceProxy() {
	i.find("proxy").Run = func(c *cobra.Command, _ []string) { cmdutil.CheckErr(i.proxy(c)) }
}

func (i *invocation) proxy(c *cobra.Command) error {
	cfg, err := i.f.ToRESTConfig()
	if err != nil {
		return err
	}
	slash := func(s string) string {
		if strings.HasSuffix(s, "/") {
			return s
		}
		return s + "/"
	}
	appendPath := boolFlag(c, "append-server-path")
	if target, err := url.Parse(cfg.Host); err == nil && !appendPath && target.Path != "" && target.Path != "/" {
		klog.Warning("Your kube context contains a server path " + target.Path + ", use --append-server-path to automatically append the path to each request")
	}
	socket := stringFlag(c, "unix-socket")
	if socket != "" && c.Flags().Changed("port") {
		return fmt.Errorf("cannot set --unix-socket and --port at the same time")
	}
	var filter *proxy.FilterServer
	if boolFlag(c, "disable-filter") {
		if socket == "" {
			klog.Warning("Request filter disabled, your proxy is vulnerable to XSRF attacks, please be cautious")
		}
	} else {
		filter = &proxy.FilterServer{AcceptPaths: proxy.MakeRegexpArrayOrDie(stringFlag(c, "accept-paths")), RejectPaths: proxy.MakeRegexpArrayOrDie(stringFlag(c, "reject-paths")),
			AcceptHosts: proxy.MakeRegexpArrayOrDie(stringFlag(c, "accept-hosts")), RejectMethods: proxy.MakeRegexpArrayOrDie(stringFlag(c, "reject-methods"))}
	}
	keepalive, _ := c.Flags().GetDuration("keepalive")
	s, err := proxy.NewServer(stringFlag(c, "www"), slash(stringFlag(c, "api-prefix")), slash(stringFlag(c, "www-prefix")), filter, cfg, keepalive, appendPath)
	if err != nil {
		return err
	}
	var l net.Listener
	if socket != "" {
		l, err = i.p.Listen("unix", i.p.Path(socket))
	} else {
		port, _ := c.Flags().GetInt("port")
		l, err = i.p.Listen("tcp", net.JoinHostPort(stringFlag(c, "address"), strconv.Itoa(port)))
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(i.streams.Out, "Starting to serve on %s\n", l.Addr().String())
	return s.ServeOnListener(l)
}
