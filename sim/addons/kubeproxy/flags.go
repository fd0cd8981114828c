package kubeproxy

import (
	"github.com/spf13/pflag"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
)

// addFlags adds the flags of upstream's kube-proxy with their defaults. Upstream's own function for it lives in a package that
// needs the kernel interfaces of all its back ends; with --config it ignores all of these but a few.
func addFlags(fs *pflag.FlagSet) {
	for name, value := range map[string]string{
		"config": "", "write-config-to": "", "kubeconfig": "", "master": "", "kube-api-content-type": "application/vnd.kubernetes.protobuf", "hostname-override": "",
		"bind-address": "0.0.0.0", "healthz-bind-address": "0.0.0.0:10256", "metrics-bind-address": "127.0.0.1:10249", "show-hidden-metrics-for-version": "", "proxy-mode": "",
		"ipvs-scheduler": "", "detect-local-mode": "", "pod-bridge-interface": "", "pod-interface-name-prefix": "", "cluster-cidr": "", "feature-gates": "",
	} {
		fs.String(name, value, "")
	}
	for name, value := range map[string]bool{
		"cleanup": false, "bind-address-hard-fail": false, "profiling": false, "init-only": false, "masquerade-all": false, "iptables-localhost-nodeports": true,
		"ipvs-strict-arp": false, "conntrack-tcp-be-liberal": false,
	} {
		fs.Bool(name, value, "")
	}
	for name, value := range map[string]int32{
		"kube-api-burst": 10, "iptables-masquerade-bit": 14, "oom-score-adj": -999, "conntrack-max-per-core": 32768, "conntrack-min": 131072, "healthz-port": 10256, "metrics-port": 10249,
	} {
		fs.Int32(name, value, "")
	}
	fs.Float32("kube-api-qps", 5, "")
	for _, name := range []string{
		"iptables-sync-period", "iptables-min-sync-period", "ipvs-sync-period", "ipvs-min-sync-period", "ipvs-tcp-timeout", "ipvs-tcpfin-timeout", "ipvs-udp-timeout",
		"conntrack-tcp-timeout-established", "conntrack-tcp-timeout-close-wait", "conntrack-udp-timeout", "conntrack-udp-timeout-stream", "config-sync-period",
	} {
		fs.Duration(name, 0, "")
	}
	for _, name := range []string{"ipvs-exclude-cidrs", "nodeport-addresses"} {
		fs.StringSlice(name, nil, "")
	}
	logsapi.AddFlags(logs.NewOptions(), fs)
}
